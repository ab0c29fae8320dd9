"""The command as a user runs it, without the variables of whoever runs the tests."""

import os
import subprocess
import sys


def kvquarry(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "kvquarry_server", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={key: value for key, value in os.environ.items() if "KVQUARRY" not in key} | environ,
    )
