"""What a name looks like in the Python files of a vLLM that is read and never imported.

A name is ``module:function``, ``module:Class``, ``module:Class.member`` or ``module:NAME``, or
``module:Callee(...)`` for the keywords with which a module calls something. Annotations are left
out: they change without anything else changing.
"""

import ast
import copy
import functools
from collections.abc import Iterator
from pathlib import Path

_DESCRIBED_DECORATORS = ("classmethod", "staticmethod", "property", "cached_property")

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def describe(root: Path, name: str) -> str | None:
    """What ``name`` looks like below ``root``, the folder that holds vllm; None if it is gone."""
    module, _, qualified = name.partition(":")
    tree = _tree(root, module)
    if tree is None:
        return None
    if qualified.endswith("(...)"):
        return _describe_calls(tree, qualified.removesuffix("(...)"))
    return _describe_member(tree.body, qualified.split("."))


def version_of(root: Path) -> str:
    """The version of the vLLM below ``root``.

    Raises:
        FileNotFoundError: There is no vLLM below it.
    """
    described = describe(root, "vllm._version:__version__")
    if described is None:
        raise FileNotFoundError(f"no vllm/_version.py below {root}")
    return str(ast.literal_eval(described.rpartition("= ")[2]))


@functools.cache
def _tree(root: Path, module: str) -> ast.Module | None:
    path = root.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return ast.parse(file.read_text(encoding="utf-8"))
    return None


def _describe_member(body: list[ast.stmt], path: list[str]) -> str | None:
    first, *rest = path
    for statement in reversed(
        list(_statements(body))
    ):  # the last definition is the one that counts
        if isinstance(statement, ast.ClassDef) and statement.name == first:
            return _describe_member(statement.body, rest) if rest else _describe_class(statement)
        if not rest and (described := _describe_binding(statement, first)) is not None:
            return described
    return None


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements with those under conditions, so that guarded imports and definitions count too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)


def _describe_binding(statement: ast.stmt, name: str) -> str | None:
    if isinstance(statement, Definition) and statement.name == name:
        return _describe_function(statement)
    if isinstance(statement, ast.ImportFrom):
        found = [alias for alias in statement.names if (alias.asname or alias.name) == name]
        dots = "." * statement.level
        return f"from {dots}{statement.module} import {found[0].name}" if found else None
    if isinstance(statement, ast.AnnAssign) and _is_named(statement.target, name):
        default = f" = {ast.unparse(statement.value)}" if statement.value else ""
        return f"field{default}"
    if isinstance(statement, ast.Assign) and any(_is_named(t, name) for t in statement.targets):
        return f"{name} = {ast.unparse(statement.value)}"
    return None


def _is_named(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _describe_function(function: Definition) -> str:
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    marks = [f"@{name} " for name in decorators if name in _DESCRIBED_DECORATORS]
    return f"{''.join(marks)}def ({_parameters(function.args)})"


def _parameters(arguments: ast.arguments) -> str:
    """Names, kinds and defaults."""
    bare = copy.deepcopy(arguments)
    for argument in ast.walk(bare):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return ast.unparse(bare)


def _describe_class(definition: ast.ClassDef) -> str:
    """Bases, annotated fields in order, and the constructor if there is one."""
    bases = ", ".join(ast.unparse(base) for base in definition.bases)
    fields = []
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = f"={ast.unparse(statement.value)}" if statement.value else ""
            fields.append(f"{statement.target.id}{default}")
        elif isinstance(statement, Definition) and statement.name == "__init__":
            fields.append(f"__init__({_parameters(statement.args)})")
    return f"class ({bases}): {', '.join(fields)}"


def _describe_calls(tree: ast.Module, callee: str) -> str | None:
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_named(node.func, callee)
    ]
    if not calls:
        return None
    return " and ".join(f"called with ({_arguments(call)})" for call in calls)


def _arguments(call: ast.Call) -> str:
    positional = ["_"] * len(call.args)
    return ", ".join(positional + [keyword.arg or "**" for keyword in call.keywords])
