"""What is built once for all tests here."""

import shutil
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, built_wheel
from tests.deploy.bare_environment import BareEnvironment, install
from tests.deploy.dockerfile import copied_sources


@pytest.fixture(scope="session")
def image_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as in the image: from what the Dockerfile copies and nothing else."""
    folder = tmp_path_factory.mktemp("image")
    source = folder / "src"
    caches = shutil.ignore_patterns("__pycache__")
    for name in copied_sources():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=caches)
        else:
            shutil.copy(ROOT / name, source / name)
    return built_wheel(source, folder)


@pytest.fixture(scope="session")
def bare_environment(
    image_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> BareEnvironment:
    """The wheel installed with its `server` extra, without torch and vLLM."""
    return install(image_wheel, tmp_path_factory.mktemp("bare") / "venv")
