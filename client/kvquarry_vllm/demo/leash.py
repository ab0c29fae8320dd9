"""Lets a child process end when its parent does, however the parent ends."""

import os
import sys
from collections.abc import Sequence
from typing import Final

# Linux alone: PR_SET_PDEATHSIG is 1. It outlives execv, and is told when the *thread* that started
# the process ends; a parent that was gone before is noticed by its id.
_DIES_WITH_PARENT: Final = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(1, signal.SIGTERM, 0, 0, 0):
    raise OSError(ctypes.get_errno(), "prctl")
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def on_leash(command: Sequence[str]) -> list[str]:
    """A command that runs ``command`` and gets SIGTERM when the calling thread ends.

    Args:
        command: Its first word is the path of a program.
    """
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), *command]
