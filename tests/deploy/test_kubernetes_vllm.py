"""The pod's vLLM flags are flags of the real vLLM, and mean what the pod needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import containers

PARSE = Path(__file__).with_name("parse_vllm_flags.py")


@pytest.mark.vllm
def test_vllm_knows_the_flags_of_the_pod() -> None:
    container = containers()["vllm"]
    assert container["command"] == ["vllm", "serve"]
    parsed = subprocess.run(
        [sys.executable, PARSE, *container["args"]],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    found = json.loads(parsed.stdout.splitlines()[-1])
    gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
    assert found == {
        "model_tag": container["args"][0],
        "mamba_cache_mode": "align",
        "shutdown_timeout": 45,
        "tensor_parallel_size": gpus,
    }
