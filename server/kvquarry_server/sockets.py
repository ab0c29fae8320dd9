"""Binding: a Unix socket needs a free, short path that only its group may open."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from kvquarry_server.addresses import Address, TcpAddress, UnixAddress

_LONGEST_PATH_BYTES = 107
_CONNECT_TIMEOUT_S = 1.0
# The engine runs as another user of the same group, or as the same one.
_UMASK = 0o007


class CannotListen(Exception):
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


def prepare_socket_path(path: Path) -> None:
    """Make way for a socket: a file that a dead service left is removed, nothing else is.

    Raises:
        CannotListen: The path is too long, its folder is missing, or it is in use.
    """
    num_bytes = len(os.fsencode(path))
    if num_bytes > _LONGEST_PATH_BYTES:
        raise CannotListen(
            f"a Unix socket's path has at most {_LONGEST_PATH_BYTES} bytes; {path} has {num_bytes}"
        )
    if not path.parent.is_dir():
        raise CannotListen(f"there is no folder {path.parent}; create it, or listen elsewhere")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise CannotListen(f"{path} exists and is no socket; remove it, or listen elsewhere")
    if _is_answered(path):
        raise CannotListen(f"another process listens on unix:{path}; stop it, or listen elsewhere")
    path.unlink()


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
