"""A made-up tokenizer of one word a token, so that an OpenAI server can serve a checkpoint."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE

_SPECIAL: Final = {"<pad>": 0, "<s>": 1, "</s>": 2}


def write_tokenizer(folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json into a checkpoint's folder."""
    words = {word(token): token for token in range(len(_SPECIAL), VOCAB_SIZE)}
    tokenizer = Tokenizer(WordLevel(_SPECIAL | words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<pad>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def word(token: int) -> str:
    """The word of an ordinary token."""
    return f"w{token}"


def text_of(tokens: Sequence[int]) -> str:
    """The text that is read as exactly these tokens."""
    return " ".join(map(word, tokens))
