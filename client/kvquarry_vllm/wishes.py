"""What a request wants of the cache: arguments beside its sampling parameters.

``SamplingParams.extra_args``, or ``vllm_xargs`` in the OpenAI API::

    {"kvquarry_pin_s": 3600, "kvquarry_priority": 1}

The front end refuses what cannot be understood (:mod:`kvquarry_vllm.gates.request_check`). Should
it reach the engine even so, it is passed over there: nobody's engine stops for one request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm.v1.request import Request

from kvquarry_core.checks import LONGEST_PIN_S
from kvquarry_core.priorities import NUM_PRIORITIES
from kvquarry_vllm.log import logger

PIN = "kvquarry_pin_s"
PRIORITY = "kvquarry_priority"
#: All of our arguments begin with this: a misspelt one must not be passed over in silence.
_PREFIX = "kvquarry_"


class InvalidWish(ValueError):
    """An argument of ours that cannot be understood; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a request wants.

    Attributes:
        pin_s: How long its prompt is to stay in the cache; 0 to let go of it, None for no word.
        priority: What it leaves behind is evicted after all that has a lower one.
    """

    pin_s: float | None = None
    priority: int = 0


NO_WISHES = Wishes()


def read_wishes(arguments: Mapping[str, Any] | None) -> Wishes:
    """Those among a request's extra arguments.

    Raises:
        InvalidWish: One of them cannot be understood.
    """
    ours = [name for name in arguments or () if name.startswith(_PREFIX)]
    if not arguments or not ours:
        return NO_WISHES
    for name in ours:
        if name not in {PIN, PRIORITY}:
            raise InvalidWish(f"there is no {name}: write {PIN} or {PRIORITY}")
    return Wishes(_pin_s(arguments.get(PIN)), _priority(arguments.get(PRIORITY)))


def wishes_of(request: Request) -> Wishes:
    """A request's wishes; none, after one log line, where they cannot be understood."""
    params = request.sampling_params
    if params is None or not params.extra_args:
        return NO_WISHES
    try:
        return read_wishes(params.extra_args)
    except InvalidWish as error:
        logger.warning_once("kvquarry passes over what a request wants of the cache: %s", error)
        return NO_WISHES


def _pin_s(value: object) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= LONGEST_PIN_S):
        raise InvalidWish(
            f"{PIN}: write for how many seconds the prompt is to stay, 0 to {LONGEST_PIN_S} and 0 "
            f"to let go of it, not {_shown(value)}"
        )
    return float(value)


def _priority(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < NUM_PRIORITIES:
        raise InvalidWish(
            f"{PRIORITY}: write a whole number from 0 to {NUM_PRIORITIES - 1}, not {_shown(value)}"
        )
    return value


def _shown(value: object) -> str:
    # Python prints no integer of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number that large"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
