"""Where a pool's accounting lives: in this process, behind a Unix socket, or behind TCP."""

from dataclasses import dataclass

from kvquarry_client.errors import InvalidTarget

_LONGEST_SOCKET_PATH = 107
# gRPC reads a socket's path as part of a URI, and would look elsewhere.
_UNSAFE = frozenset("%#?,:")


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed ``KVQUARRY_TARGET``.

    Attributes:
        text: As it was written, for messages.
        grpc_address: What gRPC dials; None for ``inproc:``.
    """

    text: str
    grpc_address: str | None

    @property
    def is_inproc(self) -> bool:
        """Whether the core runs in the engine's own process."""
        return self.grpc_address is None

    def __str__(self) -> str:
        return self.text


def parse_target(text: str) -> Target:
    """Understand ``unix:/path``, ``host:port`` or ``inproc:``.

    Raises:
        InvalidTarget: For anything else; the message says what to write.
    """
    if text == "inproc:":
        return Target(text, None)
    if text.startswith("unix:"):
        return Target(text, _unix_address(text))
    if text.startswith("/"):
        raise InvalidTarget(f"write unix:{text} for a socket, not {text!r}")
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InvalidTarget(f"write unix:/path, host:port or inproc: instead of {text!r}")
    if not 0 < int(port) < 65536:
        raise InvalidTarget(f"nobody can be found at port {port}: write one from 1 to 65535")
    return Target(text, text)


def _unix_address(text: str) -> str:
    path = text.removeprefix("unix:").removeprefix("//")
    if not path.startswith("/"):
        raise InvalidTarget(f"write the absolute path of the socket: unix:/path, not {text!r}")
    if _UNSAFE.intersection(path):
        raise InvalidTarget(f"gRPC misreads socket paths with % # ? , or :, as in {text!r}")
    if len(path.encode()) > _LONGEST_SOCKET_PATH:
        raise InvalidTarget(
            f"a Unix socket's path has at most {_LONGEST_SOCKET_PATH} bytes; "
            f"{path!r} has {len(path.encode())}"
        )
    return f"unix:{path}"
