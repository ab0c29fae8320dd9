"""Hooks replace a name once, at once or when its module is imported."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvquarry_vllm.gates import hooks
from kvquarry_vllm.gates.hooks import Hook, HookMissing

SOURCE = """
def answer():
    return 1


class Thing:
    def method(self):
        return 2

    @classmethod
    def of_class(cls):
        return cls.__name__
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that nobody has imported yet."""
    name = "kvquarry_hooked_module"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield name
    sys.meta_path[:] = finders
    sys.modules.pop(name, None)


def plus_one(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: original(*args) + 1


def test_a_module_that_is_there_is_hooked_at_once(module: str) -> None:
    imported = importlib.import_module(module)
    hooks.apply([Hook(module, "answer", plus_one)])
    assert imported.answer() == 2


def test_a_module_that_is_not_there_is_hooked_when_it_is_imported(module: str) -> None:
    hooks.apply([Hook(module, "answer", plus_one), Hook(module, "Thing.method", plus_one)])
    assert module not in sys.modules
    imported = importlib.import_module(module)
    assert (imported.answer(), imported.Thing().method()) == (2, 3)
    assert Path(imported.__file__ or "").is_file()


def test_hooking_again_changes_nothing(module: str) -> None:
    hook = Hook(module, "answer", plus_one)
    hooks.apply([hook])
    hooks.apply([hook])
    imported = importlib.import_module(module)
    hooks.apply([hook])
    assert imported.answer() == 2


def test_a_class_method_stays_one(module: str) -> None:
    imported = importlib.import_module(module)
    hooks.apply([Hook(module, "Thing.of_class", lambda original: lambda cls: original(cls) * 2)])
    assert imported.Thing.of_class() == "ThingThing"


def test_a_replacement_knows_its_original(module: str) -> None:
    imported = importlib.import_module(module)
    original = imported.answer
    hooks.apply([Hook(module, "answer", plus_one)])
    assert hooks.original_of(imported.answer) is original
    assert hooks.original_of(original) is None


@pytest.mark.parametrize("name", ["missing", "Thing.missing", "Missing.method"])
def test_a_name_that_is_not_there_is_an_error_now_and_later(module: str, name: str) -> None:
    hooks.apply([Hook(module, name, plus_one)])
    with pytest.raises(HookMissing, match=name):
        importlib.import_module(module)
    sys.modules.pop(module, None)
    importlib.import_module(module)
    with pytest.raises(HookMissing, match=name):
        hooks.apply([Hook(module, name, plus_one)])
