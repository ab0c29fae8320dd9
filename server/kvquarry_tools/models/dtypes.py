"""Names of number formats, as vLLM and configurations write them, and their bytes."""

from collections.abc import Mapping

from kvquarry_tools.errors import InvalidOption

#: The format that the model's configuration asks for.
AUTO = "auto"

ACTIVATION_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
#: What ``--kv-cache-dtype`` may be, as far as a token then takes a whole number of bytes per value.
KV_BYTES: Mapping[str, int] = {
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
#: What ``--mamba-ssm-cache-dtype`` may be.
STATE_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


def bytes_of(dtype: str, known: Mapping[str, int], option: str) -> int:
    """Bytes of one number of a format.

    Raises:
        InvalidOption: The format is not among the known ones.
    """
    if dtype not in known:
        choices = ", ".join([AUTO, *known])
        raise InvalidOption(f"{option} {dtype!r} is not known; choose one of: {choices}")
    return known[dtype]
