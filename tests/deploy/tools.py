"""Programs that checks call: those of the environment, and those that a machine may have."""

import shutil
import sysconfig

import pytest


def of_environment(name: str) -> str:
    """A program that requirements/dev.txt installs beside the interpreter."""
    found = shutil.which(name, path=sysconfig.get_path("scripts"))
    assert found is not None, f"{name} is missing: make venv installs it"
    return found


def of_machine(name: str, package: str) -> str:
    """A program that the machine may have; the test is skipped where it does not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} ({package})")
    return found
