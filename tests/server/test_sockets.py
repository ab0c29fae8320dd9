"""A socket's path is taken over from the dead only."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kvquarry_server.sockets import CannotListen, claim_socket, prepare_socket_path


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket's path is limited."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_a_free_path_is_left_alone(folder: Path) -> None:
    prepare_socket_path(folder / "free.sock")
    assert list(folder.iterdir()) == []


def test_a_file_that_a_dead_service_left_is_removed(folder: Path) -> None:
    path = folder / "stale.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    assert path.exists()
    prepare_socket_path(path)
    assert not path.exists()


def test_the_socket_of_a_living_service_is_left_alone(folder: Path) -> None:
    path = folder / "live.sock"
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(os.fspath(path))
        alive.listen()
        with pytest.raises(CannotListen, match="another process listens on"):
            prepare_socket_path(path)
        assert path.exists()


def test_a_file_that_is_no_socket_is_left_alone(folder: Path) -> None:
    path = folder / "notes.txt"
    path.write_text("mine")
    link = folder / "link.sock"
    link.symlink_to(path)
    for taken in (path, link, folder):
        with pytest.raises(CannotListen, match="is no socket"):
            prepare_socket_path(taken)
    assert path.read_text() == "mine"


def test_a_missing_folder_is_named(folder: Path) -> None:
    with pytest.raises(CannotListen, match=r"there is no folder .*absent"):
        prepare_socket_path(folder / "absent" / "a.sock")


def test_a_path_may_have_107_bytes_and_no_more(folder: Path) -> None:
    room = 107 - len(os.fsencode(folder)) - 1
    prepare_socket_path(folder / ("x" * room))
    for name in ("x" * (room + 1), "ä" * (room // 2 + 1)):
        with pytest.raises(CannotListen, match="at most 107 bytes"):
            prepare_socket_path(folder / name)


def test_of_two_who_find_a_dead_socket_one_gets_the_path(folder: Path) -> None:
    path = folder / "stale.sock"
    claim = claim_socket(path)
    with pytest.raises(CannotListen, match="another process listens on"):
        claim_socket(path)
    claim.close()
    claim_socket(path).close()


def test_a_folder_that_may_not_be_written_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(CannotListen, match="may create no socket in"):
        prepare_socket_path(folder / "a.sock")


def test_a_folder_that_may_not_be_read_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(CannotListen, match="Permission denied"):
        prepare_socket_path(folder / "a.sock")


def test_the_socket_of_another_user_is_not_taken_for_a_living_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "theirs.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))

    class Refused(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "socket", Refused)
    with pytest.raises(CannotListen, match="belongs to another user"):
        prepare_socket_path(path)
