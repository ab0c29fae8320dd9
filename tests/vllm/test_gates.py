"""What is recorded of vLLM is what the installed one looks like, and covers all that is used."""

import ast
import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvquarry_vllm
from kvquarry_client.target import parse_target
from kvquarry_vllm.gates import check
from kvquarry_vllm.gates.hooks import Hook
from kvquarry_vllm.gates.signatures import describe, version_of
from kvquarry_vllm.plugin import GATES
from kvquarry_vllm.settings import Settings

PACKAGE = Path(kvquarry_vllm.__file__).parent
TARGETS = ("inproc:", "unix:/run/kvquarry.sock")
#: Files that only one version's processes load.
ONLY = {"0.32": {"gates/v0_32.py"}, "0.33": {"gates/v0_33.py", "gates/builder_0_33.py"}}


def hooks_of(version: str, target: str) -> tuple[Hook, ...]:
    settings = Settings(parse_target(target), "engine", 1.0)
    hooks: tuple[Hook, ...] = importlib.import_module(GATES[version]).hooks(settings)
    return hooks


def imported_names(version: str) -> Iterator[str]:
    """`module:name` of everything that the plug-in's modules for a version import from vLLM."""
    others = set().union(*ONLY.values()) - ONLY[version]
    for file in PACKAGE.rglob("*.py"):
        path = file.relative_to(PACKAGE).as_posix()
        if path.startswith("demo/") or path in others:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm"):
                yield from (f"{node.module}:{alias.name}" for alias in node.names)


@pytest.fixture
def installed() -> Path:
    root = check.installed_root()
    assert root is not None
    return root


def test_the_installed_vllm_looks_as_recorded(installed: Path) -> None:
    assert check.differences(installed) == []


@pytest.mark.parametrize("version", GATES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_hooked_name_is_recorded(version: str, target: str) -> None:
    hooked = {f"{hook.module}:{hook.name}" for hook in hooks_of(version, target)}
    assert hooked - check.recorded_names(version).keys() == set()


@pytest.mark.parametrize("version", GATES)
def test_every_imported_name_is_recorded(version: str) -> None:
    assert set(imported_names(version)) - check.recorded_names(version).keys() == set()


@pytest.mark.parametrize("version", GATES)
def test_no_name_is_recorded_as_missing(version: str) -> None:
    assert [name for name, text in check.recorded_names(version).items() if not text] == []


@pytest.mark.parametrize("version", GATES)
@pytest.mark.parametrize("target", TARGETS)
def test_no_name_is_hooked_twice(version: str, target: str) -> None:
    names = [(hook.module, hook.name) for hook in hooks_of(version, target)]
    assert len(names) == len(set(names))


@pytest.fixture
def copy(installed: Path, tmp_path: Path) -> Path:
    """The files of the installed vLLM that anything is recorded of, to be doctored."""
    modules = {name.partition(":")[0] for name in check.recorded_names("0.32")}
    for module in {*modules, "vllm._version"}:
        path = Path(*module.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if (installed / file).is_file():
                (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(installed / file, tmp_path / file)
    return tmp_path


def doctor(root: Path, file: str, old: str, new: str) -> None:
    path = root / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_an_unchanged_copy_shows_no_difference(copy: Path) -> None:
    assert check.differences(copy) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "name"),
    [
        (
            "vllm/v1/core/kv_cache_utils.py",
            "def _pool_bytes_per_block(\n    vllm_config: VllmConfig,",
            "def _pool_bytes_per_block(\n    builder, vllm_config: VllmConfig,",
            "vllm.v1.core.kv_cache_utils:_pool_bytes_per_block",
        ),
        (
            "vllm/v1/core/kv_cache_utils.py",
            "def get_kv_cache_groups(",
            "def get_cache_groups(",
            "vllm.v1.core.kv_cache_utils:get_kv_cache_groups",
        ),
        (
            "vllm/v1/core/sched/scheduler.py",
            "            max_model_len=self.max_model_len,\n            max_in_flight",
            "            model_len=self.max_model_len,\n            max_in_flight",
            "vllm.v1.core.sched.scheduler:KVCacheManager(...)",
        ),
        (
            "vllm/v1/kv_cache_interface.py",
            "    num_prefill_checkpoint_blocks: int = 0\n",
            "    num_prefill_checkpoint_blocks: int = 1\n",
            "vllm.v1.kv_cache_interface:MambaSpec",
        ),
        (
            "vllm/platforms/interface.py",
            "    @classmethod\n    def _align_hybrid_block_size(",
            "    @staticmethod\n    def _align_hybrid_block_size(",
            "vllm.platforms.interface:Platform._align_hybrid_block_size",
        ),
    ],
)
def test_a_changed_file_is_noticed(
    copy: Path, file: str, old: str, new: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(copy, file, old, new)
    assert [difference.name for difference in check.differences(copy)] == [name]
    assert check.main(["--wheel-dir", str(copy)]) == 1
    assert name in capsys.readouterr().out


def test_a_version_that_nobody_read_is_refused(copy: Path) -> None:
    doctor(copy, "vllm/_version.py", "0.32.0", "0.31.0")
    with pytest.raises(check.NotRecorded, match=r"0\.31.*0_32, 0_33"):
        check.differences(copy)
    assert check.main(["--wheel-dir", str(copy)]) == 2


def test_a_folder_without_vllm_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(["--wheel-dir", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_the_check_succeeds_on_the_installed_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([]) == 0
    assert "names as recorded" in capsys.readouterr().out


def test_recording_writes_what_is_found(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(check.recorded_file("0.32"), tmp_path / "recorded_0_32.json")
    monkeypatch.setattr(check, "_HERE", tmp_path)
    doctor(
        copy,
        "vllm/v1/core/kv_cache_utils.py",
        "def get_kv_cache_groups(",
        "def get_kv_cache_groups(\n    more,",
    )
    assert len(check.differences(copy)) == 1
    check.record(copy)
    assert check.differences(copy) == []
    assert json.loads((tmp_path / "recorded_0_32.json").read_text())


def test_the_version_is_read_from_the_files(installed: Path) -> None:
    assert version_of(installed) == "0.32.0"


SAMPLE = """
import typing
from .version import __version__ as version

LIMIT: int = 3
ANSWER = 40 + 2

if typing.TYPE_CHECKING:
    from vllm.elsewhere import Guarded

def plain(a: int, b: str = "x", *rest: int, c: bool, d: int = 1, **more: int) -> None: ...

class Thing(list):
    size: int
    kind: str = "k"
    def __init__(self, size: int) -> None: ...
    @property
    def value(self) -> int: ...

made = Thing(1, size=2, **{})
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "def (a, b='x', *rest, c, d=1, **more)"),
        ("Thing", "class (list): size, kind='k', __init__(self, size)"),
        ("Thing.value", "@property def (self)"),
        ("Thing.kind", "field = 'k'"),
        ("Thing.size", "field"),
        ("LIMIT", "field = 3"),
        ("ANSWER", "ANSWER = 40 + 2"),
        ("version", "from .version import __version__"),
        ("Guarded", "from vllm.elsewhere import Guarded"),
        ("Thing(...)", "called with (_, size, **)"),
        ("nothing", None),
        ("Thing.nothing", None),
        ("nothing(...)", None),
    ],
)
def test_names_are_described_without_annotations(
    tmp_path: Path, name: str, expected: str | None
) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    assert describe(tmp_path, f"sample:{name}") == expected


def test_a_missing_module_has_no_names(tmp_path: Path) -> None:
    assert describe(tmp_path, "missing:name") is None
