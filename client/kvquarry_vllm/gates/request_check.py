"""The front end refuses what a request wants of the cache and nobody understands.

There, before the request reaches an engine, it becomes an error of that one request: status 400
over HTTP, an exception of ``LLM.generate``.
"""

import functools
from typing import Any

from kvquarry_vllm.gates.hooks import Hook
from kvquarry_vllm.wishes import InvalidWish, read_wishes


def request_hooks() -> tuple[Hook, ...]:
    """The hooks of the front end."""
    return (
        Hook(
            "vllm.v1.engine.input_processor",
            "InputProcessor._validate_params",
            refusing_wishes,
        ),
    )


def refusing_wishes(original: Any) -> Any:
    """``InputProcessor._validate_params``: ours among the extra arguments, too."""

    @functools.wraps(original)
    def _validate_params(self: Any, params: Any, *arguments: Any, **keywords: Any) -> Any:
        from vllm.exceptions import VLLMValidationError

        result = original(self, params, *arguments, **keywords)
        try:
            read_wishes(getattr(params, "extra_args", None))
        except InvalidWish as error:
            raise VLLMValidationError(str(error), parameter="vllm_xargs") from error
        return result

    return _validate_params
