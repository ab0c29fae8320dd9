"""Binding: a Unix socket needs a free, short path that only its group may open.

Whoever finds a socket that nobody answers takes its path over. A lock beside it decides between two
who find it at the same time; it is held for the service's life, and its empty file stays.
"""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import grpc

from kvquarry_server.addresses import Address, TcpAddress, UnixAddress
from kvquarry_server.failures import CommandFailed

_LONGEST_PATH_BYTES = 107
_CONNECT_TIMEOUT_S = 1.0
# The engine runs as another user of the same group, or as the same one.
_UMASK = 0o007


class CannotListen(CommandFailed):
    """An address that cannot be bound; the message says what to change."""


def bind(server: grpc.aio.Server, address: Address) -> Address:
    """Let a gRPC server listen at an address and return it with the port that was chosen.

    Raises:
        CannotListen: With the reason.
    """
    if isinstance(address, UnixAddress):
        prepare_socket_path(address.path)
    else:
        check_port(address)
    try:
        with _umask(_UMASK):
            port = server.add_insecure_port(str(address))
    except RuntimeError as error:
        raise CannotListen(
            f"cannot listen on {address}: it is in use, or not an address of this machine"
        ) from error
    return TcpAddress(address.host, port) if isinstance(address, TcpAddress) else address


def claim_socket(path: Path) -> IO[bytes]:
    """Make sure that no other service listens on a path, now and until the result is closed.

    Raises:
        CannotListen: Another one does, or the lock's file cannot be written.
    """
    _check_folder(path)
    lock = path.with_name(f"{path.name}.lock")
    try:
        with _umask(_UMASK):
            claim = lock.open("ab")
    except OSError as error:
        raise CannotListen(f"cannot listen on unix:{path}: {error}") from error
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        claim.close()
        raise CannotListen(_taken(path)) from error
    return claim


def prepare_socket_path(path: Path) -> None:
    """Make way for a socket: a file that a dead service left is removed, nothing else is.

    Raises:
        CannotListen: The path is too long, its folder is missing or may not be written, or it is
            in use.
    """
    _check_folder(path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise CannotListen(f"{path} exists and is no socket; remove it, or listen elsewhere")
    if _is_answered(path):
        raise CannotListen(_taken(path))
    try:
        path.unlink()
    except OSError as error:
        raise CannotListen(f"cannot listen on unix:{path}, which is left over: {error}") from error


def _taken(path: Path) -> str:
    return f"another process listens on unix:{path}; stop it, or listen elsewhere"


def _check_folder(path: Path) -> None:
    num_bytes = len(os.fsencode(path))
    if num_bytes > _LONGEST_PATH_BYTES:
        raise CannotListen(
            f"a Unix socket's path has at most {_LONGEST_PATH_BYTES} bytes; {path} has {num_bytes}"
        )
    try:
        is_folder = path.parent.is_dir()
    except OSError as error:
        raise CannotListen(f"cannot listen on unix:{path}: {error}") from error
    if not is_folder:
        raise CannotListen(f"there is no folder {path.parent}; create it, or listen elsewhere")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CannotListen(
            f"this user may create no socket in {path.parent}; give the folder to the user, or "
            "listen elsewhere"
        )


def check_port(address: TcpAddress) -> None:
    """Find out beforehand what gRPC would only log in words of its own.

    Raises:
        CannotListen: The host has no address, or the port is in use.
    """
    try:
        found = socket.getaddrinfo(
            address.bare_host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise CannotListen(f"cannot listen on {address}: {error}") from error
    for family, kind, protocol, _, where in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC does: connections that have just ended do not hold a port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
        except OSError as error:
            # Of a host's addresses, one that this machine lacks is no harm.
            if error.errno == errno.EADDRINUSE:
                raise CannotListen(
                    f"cannot listen on {address}: the port is in use; stop who uses it, or listen "
                    "elsewhere"
                ) from error


def _is_answered(path: Path) -> bool:
    """Whether somebody accepts connections there; a full backlog is somebody, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except PermissionError:
            raise CannotListen(
                f"{path} belongs to another user; remove it if nobody listens there, or listen "
                "elsewhere"
            ) from None
        except OSError:
            return True
    return True


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    """The mask belongs to the whole process: only while nothing else creates files."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
