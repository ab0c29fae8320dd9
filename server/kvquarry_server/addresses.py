"""Where the service listens and is found: a Unix socket's path, or a host and a port."""

from dataclasses import dataclass
from pathlib import Path

_HIGHEST_PORT = 65_535
# gRPC reads a socket's path as part of a URI, and would listen elsewhere.
_UNSAFE = frozenset("%#?,:")


class InvalidAddress(ValueError):
    """Text that is no address; the message shows the forms that are."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system: who may open the file may connect."""

    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host and a port; port 0 lets the system choose when listening."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def bare_host(self) -> str:
        """Without the brackets of an IPv6 address."""
        return self.host.strip("[]")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.bare_host in {"localhost", "::1"} or self.host.startswith("127.")


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """Understand ``unix:/path`` or ``host:port``.

    Raises:
        InvalidAddress: For anything else.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise InvalidAddress(f"write the whole path of the socket, unix:/path, not {text!r}")
        if _UNSAFE.intersection(path):
            raise InvalidAddress(f"gRPC misreads socket paths with % # ? , or :, as in {text!r}")
        return UnixAddress(Path(path))
    if text.startswith("/"):
        raise InvalidAddress(f"write unix:{text} for a socket, not {text!r}")
    try:
        return parse_tcp_address(text)
    except InvalidAddress as error:
        raise InvalidAddress(f"{error}; or unix:/path") from None


def parse_tcp_address(text: str) -> TcpAddress:
    """Understand ``host:port``.

    Raises:
        InvalidAddress: For anything else.
    """
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_host = bool(host) and "/" not in host and (":" not in host or is_bracketed)
    if not (is_host and port.isdecimal() and int(port) <= _HIGHEST_PORT):
        raise InvalidAddress(
            f"write host:port or [ipv6]:port, with a port from 0 to {_HIGHEST_PORT}, not {text!r}"
        )
    return TcpAddress(host, int(port))
