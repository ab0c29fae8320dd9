"""The entry point in group ``vllm.general_plugins``: runs once in every vLLM process."""

import importlib

import vllm

from kvquarry_vllm.settings import Settings, read_settings

#: The gate of each supported vLLM version.
GATES = {"0.32": "kvquarry_vllm.gates.v0_32", "0.33": "kvquarry_vllm.gates.v0_33"}


class UnsupportedVersion(RuntimeError):
    """The installed vLLM is none that a gate was written for."""


def register() -> None:
    """Hook kvquarry into vLLM if ``KVQUARRY_TARGET`` is set; do nothing at all if not.

    Called again, it changes nothing.

    Raises:
        InvalidSetting: A KVQUARRY_* variable cannot be understood.
        UnsupportedVersion: There is no gate for this vLLM.
        HookMissing: This vLLM does not look like its version.
    """
    settings = read_settings()
    if settings is not None:
        _apply_gate(gate_for(vllm.__version__), settings)


def gate_for(version: str) -> str:
    """The module with the hooks for a vLLM version.

    Raises:
        UnsupportedVersion: With the versions that are supported.
    """
    gate = GATES.get(".".join(version.split(".")[:2]))
    if gate is None:
        raise UnsupportedVersion(
            f"kvquarry supports vLLM {' and '.join(GATES)}, this is {version}. Install one of "
            "these, or unset KVQUARRY_TARGET to run stock vLLM."
        )
    return gate


def _apply_gate(gate: str, settings: Settings) -> None:
    # Imported only now: without KVQUARRY_TARGET, vLLM must start as if this package were not there.
    importlib.import_module("kvquarry_vllm.log").log_client_like_vllm()
    hooks = importlib.import_module("kvquarry_vllm.gates.hooks")
    hooks.apply(importlib.import_module(gate).hooks(settings))
