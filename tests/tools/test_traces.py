"""Traces are read, and what is wrong with one is said with file and line."""

import gzip
import json
from pathlib import Path

import pytest

from kvquarry_tools.simulation.names import Names
from kvquarry_tools.simulation.traces import TraceError, TraceRequest, read_trace
from tests.tools.simulation.traces import conversation

GOOD = {"timestamp": 7, "input_length": 600, "output_length": 3, "hash_ids": [4, 9]}


def written(folder: Path, *lines: str, name: str = "trace.jsonl") -> Path:
    path = folder / name
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_line_is_a_request(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, json.dumps(GOOD), "", json.dumps(GOOD | {"timestamp": 8}), name=name)
    assert read_trace(path) == [
        TraceRequest(7, 600, 3, (4, 9)),
        TraceRequest(8, 600, 3, (4, 9)),
    ]


def test_a_mark_before_the_first_line_is_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert read_trace(path) == [TraceRequest(7, 600, 3, (4, 9))]


def test_a_trace_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(GOOD), encoding="utf-16")
    with pytest.raises(TraceError, match="it is no text in UTF-8"):
        read_trace(path)


def test_the_largest_names_and_times_can_be_replayed(tmp_path: Path) -> None:
    largest = GOOD | {"timestamp": 10**13, "hash_ids": [2**64 - 1, 0]}
    (request,) = read_trace(written(tmp_path, json.dumps(largest)))
    assert len(Names(request, 0, 16).up_to(600)) == 600 // 16


def test_the_conversation_trace_is_what_was_published() -> None:
    trace = conversation()
    assert len(trace) == 12_031
    assert sum(request.num_prompt_tokens for request in trace) == 144_793_823
    assert trace[0] == TraceRequest(0, 6758, 500, tuple(range(14)))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "expected a JSON object, and column 1 of .* is of none"),
        ("[1]", "expected a JSON object"),
        (json.dumps(GOOD | {"input_length": 0}), "input_length must be an integer of at least 1"),
        (json.dumps(GOOD | {"output_length": -1}), "output_length must be"),
        (json.dumps(GOOD | {"timestamp": 1.5}), "timestamp must be"),
        (json.dumps(GOOD | {"timestamp": True}), "timestamp must be"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "timestamp"}), "timestamp must be"),
        (json.dumps(GOOD | {"hash_ids": [1]}), "has 2 hash_ids of 512 tokens, not 1"),
        (json.dumps(GOOD | {"hash_ids": ["a", "b"]}), "hash_ids must be"),
        (json.dumps(GOOD | {"hash_ids": None}), "hash_ids must be"),
        (json.dumps(GOOD | {"timestamp": 10**30}), "timestamp must be .* at most 10000000000000"),
        (json.dumps(GOOD | {"timestamp": 1e30}), "timestamp must be"),
        (json.dumps(GOOD | {"output_length": 10**30}), "output_length must be .* at most"),
        (json.dumps(GOOD | {"input_length": 10**30}), "input_length must be .* at most"),
        (json.dumps(GOOD | {"hash_ids": [1, 2**64]}), "hash_ids must be .* from 0 to"),
        ('{"timestamp": ' + "1" * 5_000 + "}", "a number is too long"),
        ("[" * 100_000, "brackets are too deep"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = written(tmp_path, json.dumps(GOOD), line)
    with pytest.raises(TraceError, match=f"{path.name}, line 2: .*{complaint}"):
        read_trace(path)


def test_a_missing_file_and_an_empty_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read the trace .*none\.jsonl"):
        read_trace(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match="holds no requests"):
        read_trace(written(tmp_path, ""))


def test_an_archive_damaged_within_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, *[json.dumps(GOOD)] * 99, name="trace.jsonl.gz")
    content = bytearray(path.read_bytes())
    content[20:60] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(TraceError, match="cannot read the trace"):
        read_trace(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_damaged_archive_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace.jsonl{suffix}"
    path.write_bytes(b"this is no archive")
    with pytest.raises(TraceError, match="cannot read the trace"):
        read_trace(path)
