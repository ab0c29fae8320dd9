"""An encoder and a decoder: what Whisper needs beside weights, and prompts that carry sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import WhisperFeatureExtractor, WhisperProcessor, WhisperTokenizer

from kvquarry_vllm.demo.job import PromptRequest

_SECONDS = 2
_SAMPLE_RATE = 16_000
_NUM_MELS = 80
_SPECIAL = ("<pad>", "<s>", "<|endoftext|>", "<|startoftranscript|>")


def write_processor(folder: Path) -> None:
    """A feature extractor for sounds of two seconds, and a tokenizer of single bytes."""
    characters = [chr(code) for code in (*range(33, 127), *range(161, 256), *range(256, 324))]
    vocabulary = {word: index for index, word in enumerate((*_SPECIAL, *characters))}
    tokenizer = WhisperTokenizer(
        vocab=vocabulary,
        merges=[],
        unk_token="<|endoftext|>",
        bos_token="<s>",
        eos_token="<|endoftext|>",
        pad_token="<pad>",
        additional_special_tokens=["<|startoftranscript|>"],
    )
    extractor = WhisperFeatureExtractor(feature_size=_NUM_MELS, chunk_length=_SECONDS)
    WhisperProcessor(extractor, tokenizer).save_pretrained(folder)


def heard_with(request: PromptRequest) -> dict[str, Any]:
    """A request's prompt behind a noise of its own, the same for every engine."""
    source = np.random.default_rng(request.prompt)
    noise = source.standard_normal(_SECONDS * _SAMPLE_RATE).astype(np.float32) * 0.3
    sound = {"audio": (noise, _SAMPLE_RATE)}
    return {
        "encoder_prompt": {"prompt": "", "multi_modal_data": sound},
        "decoder_prompt": {"prompt_token_ids": list(request.prompt)},
    }
