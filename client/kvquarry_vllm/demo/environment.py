"""The environment of the processes that the demo starts."""

import os
from collections.abc import Mapping


def child_environment(env: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without its KVQUARRY_* variables, with ``env`` laid over it.

    A KVQUARRY_TARGET in the user's shell would otherwise make a stock baseline not stock.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("KVQUARRY_")}
    return inherited | dict(env)
