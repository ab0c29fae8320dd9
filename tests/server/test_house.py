"""Only the conversion package touches the fields of messages."""

import ast
from pathlib import Path

import kvquarry_server

PACKAGE = Path(kvquarry_server.__file__).parent

#: Besides conversion: transport, which passes messages on; the one table of errors; and the command
#: that asks for a status.
MAY_IMPORT_MESSAGES = {
    "admin_servicer.py",
    "errors.py",
    "pool_servicer.py",
    "querying.py",
    "servers.py",
    "worker_servicer.py",
}


def test_messages_are_known_to_conversion_and_transport_only() -> None:
    importers = {
        str(module.relative_to(PACKAGE))
        for module in PACKAGE.rglob("*.py")
        if module.parent.name != "conversion" and "kvquarry.v1alpha" in imported(module)
    }
    assert importers == MAY_IMPORT_MESSAGES


def test_servicers_read_no_field_of_a_message() -> None:
    for module in PACKAGE.glob("*_servicer.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id not in {"request", "response", "hello"}, ast.unparse(node)


def imported(module: Path) -> set[str]:
    return {
        node.module
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }
