"""What a request may want of the cache, and what becomes of what nobody understands."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError

from kvquarry_core.checks import LONGEST_PIN_S
from kvquarry_vllm.gates.hooks import apply
from kvquarry_vllm.gates.request_check import refusing_wishes, request_hooks
from kvquarry_vllm.wishes import NO_WISHES, InvalidWish, Wishes, read_wishes, wishes_of

PIN, PRIORITY = "kvquarry_pin_s", "kvquarry_priority"
NONSENSE: list[dict[str, Any]] = [
    {PIN: -1},
    {PIN: -0.001},
    {PIN: math.nan},
    {PIN: math.inf},
    {PIN: LONGEST_PIN_S + 1},
    {PIN: 10**5000},
    {PIN: "60"},
    {PIN: True},
    {PIN: [60]},
    {PRIORITY: -1},
    {PRIORITY: 4},
    {PRIORITY: 1.0},
    {PRIORITY: "1"},
    {PRIORITY: True},
    {"kvquarry_pin": 60},
    {"kvquarry_": 1},
]


@pytest.mark.parametrize(
    ("arguments", "wishes"),
    [
        (None, NO_WISHES),
        ({}, NO_WISHES),
        ({"session_id": "x", "pin_s": -1}, NO_WISHES),
        ({PIN: 60}, Wishes(pin_s=60)),
        ({PIN: 0.5, PRIORITY: 3}, Wishes(0.5, 3)),
        ({PIN: 0}, Wishes(pin_s=0)),
        ({PIN: LONGEST_PIN_S}, Wishes(pin_s=LONGEST_PIN_S)),
        ({PRIORITY: 0}, NO_WISHES),
        ({PIN: None, PRIORITY: None}, NO_WISHES),
    ],
    ids=str,
)
def test_wishes_are_read(arguments: dict[str, Any] | None, wishes: Wishes) -> None:
    assert read_wishes(arguments) == wishes


@pytest.mark.parametrize("arguments", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_refused_with_what_to_write(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidWish, match="write ") as caught:
        read_wishes(arguments)
    assert next(iter(arguments)) in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("arguments", NONSENSE, ids=range(len(NONSENSE)))
def test_an_engine_passes_nonsense_over(arguments: dict[str, Any]) -> None:
    request: Any = SimpleNamespace(sampling_params=SimpleNamespace(extra_args=arguments))
    assert wishes_of(request) == NO_WISHES


def test_a_request_that_samples_nothing_wants_nothing() -> None:
    request: Any = SimpleNamespace(sampling_params=None)
    assert wishes_of(request) == NO_WISHES


def test_the_front_end_refuses_nonsense_after_its_own_checks() -> None:
    seen: list[tuple[Any, ...]] = []

    def validate(self: object, params: SamplingParams, tasks: tuple[str, ...]) -> bool:
        seen.append((self, params, tasks))
        return True

    checked, front_end = refusing_wishes(validate), object()
    good = SamplingParams(extra_args={PIN: 60})
    assert checked(front_end, good, ("generate",)) is True
    assert seen == [(front_end, good, ("generate",))]
    with pytest.raises(VLLMValidationError, match=r"kvquarry_pin_s: write .* not -1") as caught:
        checked(front_end, SamplingParams(extra_args={PIN: -1}), ("generate",))
    assert caught.value.parameter == "vllm_xargs"
    assert len(seen) == 2


def test_what_is_pooled_has_no_wishes() -> None:
    checked = refusing_wishes(lambda self, params, tasks: None)
    assert checked(object(), SimpleNamespace(), ()) is None


def test_the_hooked_check_is_vllms_own() -> None:
    from vllm.v1.engine.input_processor import InputProcessor

    before = InputProcessor._validate_params
    apply(request_hooks())
    try:
        assert InputProcessor._validate_params.__wrapped__ is before  # type: ignore[attr-defined]
    finally:
        InputProcessor._validate_params = before  # type: ignore[method-assign]
