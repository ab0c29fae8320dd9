"""The format that a quantized checkpoint asks of its KV cache, which ``auto`` then means.

Sources: ``get_kv_cache_quant_algo_string``, the method that ``model_arch_config_convertor`` gives
older ModelOpt checkpoints, and the scheme that ``Attention`` takes from compressed-tensors (vLLM
0.32), read and written anew.
"""

from collections.abc import Mapping

from kvquarry_tools.models.configuration import Configuration
from kvquarry_tools.models.dtypes import AUTO

_MODELOPT = "modelopt"
_COMPRESSED_TENSORS = ("compressed-tensors", "compressed_tensors")
_MODELOPT_DTYPES = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}
_FP8_BITS, _FP4_BITS = 8, 4


def stored_kv_dtype(config: Configuration) -> str:
    """The cache's format by the checkpoint, or :data:`AUTO` for that of the activations."""
    if not config.has("quantization_config"):
        return AUTO
    quantization = config.section("quantization_config")
    method = _method(quantization)
    if method.startswith(_MODELOPT):
        return _of_modelopt(quantization)
    if method in _COMPRESSED_TENSORS and quantization.has("kv_cache_scheme"):
        return "fp8"
    return AUTO


def _method(quantization: Configuration) -> str:
    """The method; older ModelOpt checkpoints name who made them instead."""
    producer = quantization.raw("producer")
    if isinstance(producer, Mapping) and producer.get("name") == _MODELOPT:
        return _MODELOPT
    return quantization.word("quant_method", "")


def _of_modelopt(quantization: Configuration) -> str:
    """The first of four places that says something; what vLLM does not know stays ``auto``."""
    inner = quantization
    if quantization.has("quantization"):
        inner = quantization.section("quantization")
    asked = (
        inner.raw("kv_cache_scheme")
        or quantization.raw("kv_cache_scheme")
        or inner.raw("kv_cache_quant_algo")
        or quantization.raw("kv_cache_quant_algo")
    )
    name = _of_scheme(asked) if isinstance(asked, Mapping) else asked
    return _MODELOPT_DTYPES.get(name.lower(), AUTO) if isinstance(name, str) else AUTO


def _of_scheme(scheme: Mapping[str, object]) -> str | None:
    bits, is_float = scheme.get("num_bits"), scheme.get("type") == "float"
    if is_float and bits == _FP8_BITS and scheme.get("dynamic") is False:
        return "fp8"
    return "nvfp4" if is_float and bits == _FP4_BITS else None
