"""A link between two sockets that can be cut."""

import contextlib
import selectors
import socket
import threading
from pathlib import Path


class Link:
    """Forwards a Unix socket to another one, byte by byte, until it is told to cut."""

    def __init__(self, front: Path, back: Path) -> None:
        self.front = front
        self._back = back
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(front))
        self._listener.listen()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.bytes_until_cut: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection; new ones are accepted."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self) -> None:
        """Break everything for good."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self._back))
            except OSError:
                near.close()
                far.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            threading.Thread(target=self._forward, args=(near, far), daemon=True).start()

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            try:
                ready.register(near, selectors.EVENT_READ, far)
                ready.register(far, selectors.EVENT_READ, near)
                while True:
                    for key, _ in ready.select(timeout=0.2):
                        chunk = key.fileobj.recv(65536)  # type: ignore[union-attr]
                        if not chunk:
                            return
                        if key.fileobj is far and self._is_due(len(chunk)):
                            self.cut()
                            return
                        key.data.sendall(chunk)
            except (OSError, ValueError):
                return

    def _is_due(self, num_bytes: int) -> bool:
        """Whether the answer about to be forwarded is the one to be lost."""
        if self.bytes_until_cut is None:
            return False
        self.bytes_until_cut -= num_bytes
        if self.bytes_until_cut > 0:
            return False
        self.bytes_until_cut = None
        return True
