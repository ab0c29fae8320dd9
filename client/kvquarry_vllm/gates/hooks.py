"""Replacing a name of vLLM's, now or as soon as its module is imported.

Most processes need few of the hooked modules. Importing all of them at once would make every
front end load the workers' code, so a module that is not there yet is hooked when it comes.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_MARK = "_kvquarry_replaces"


class HookMissing(RuntimeError):
    """vLLM has no such name: its version is not the one the gate was written for."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One replaced name.

    Attributes:
        module: Where it is looked up when vLLM uses it.
        name: Dotted within the module: ``function`` or ``Class.method``.
        replace: From the original to its replacement; for a class method both are plain functions
            whose first parameter is the class.
    """

    module: str
    name: str
    replace: Callable[[Any], Any]


def apply(hooks: Iterable[Hook]) -> None:
    """Apply hooks, each at most once in a process.

    Raises:
        HookMissing: A module does not have the name.
    """
    pending: dict[str, list[Hook]] = {}
    for hook in hooks:
        module = sys.modules.get(hook.module)
        if module is None:
            pending.setdefault(hook.module, []).append(hook)
        else:
            _apply_to(module, hook)
    if pending:
        sys.meta_path.insert(0, _HookOnImport(pending))


def original_of(replacement: Any) -> Any | None:
    """What a replacement stands for, or None for anything that replaces nothing."""
    return getattr(replacement, _MARK, None)


def _apply_to(module: ModuleType, hook: Hook) -> None:
    *path, last = hook.name.split(".")
    holder: Any = module
    for part in path:
        holder = getattr(holder, part, None)
    if holder is None or last not in vars(holder):
        raise HookMissing(f"{hook.module} has no {hook.name}")
    found = vars(holder)[last]
    is_classmethod = isinstance(found, classmethod)
    original = found.__func__ if is_classmethod else found
    if original_of(original) is not None:
        return
    replacement = hook.replace(original)
    setattr(replacement, _MARK, original)
    setattr(holder, last, classmethod(replacement) if is_classmethod else replacement)


class _HookOnImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: lets the others find a hooked module, then adds a step after it."""

    def __init__(self, pending: dict[str, list[Hook]]) -> None:
        self._pending = pending

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See :meth:`importlib.abc.MetaPathFinder.find_spec`."""
        hooks = self._pending.pop(fullname, None)
        if hooks is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _HookingLoader(spec.loader, hooks)
        return spec


class _HookingLoader(importlib.abc.Loader):
    """Runs a module as its own loader would, and then applies its hooks."""

    def __init__(self, loader: importlib.abc.Loader, hooks: list[Hook]) -> None:
        self._loader = loader
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """See :meth:`importlib.abc.Loader.create_module`."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See :meth:`importlib.abc.Loader.exec_module`."""
        self._loader.exec_module(module)
        for hook in self._hooks:
            _apply_to(module, hook)
