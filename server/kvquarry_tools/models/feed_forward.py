"""Parameters of feed-forward layers that one token passes: of experts, only those it is sent to.

Most families use these names; each of the others has one or two of its own.
"""

from collections import Counter
from collections.abc import Iterator

from kvquarry_tools.models.configuration import Configuration

_DENSE, _SPARSE, _NONE = "dense", "sparse", "none"
#: What letters and words of hybrid patterns mean here; all others have no feed-forward part.
_KIND_OF = {"-": _DENSE, "E": _SPARSE, "mlp": _DENSE, "moe": _SPARSE, "hybrid": _DENSE}
_DENSE_WIDTHS = ("intermediate_size_mlp", "shared_intermediate_size", "intermediate_size")
_EXPERT_WIDTHS = ("moe_intermediate_size", "intermediate_size")
_NUM_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
_NUM_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts")
_NUM_SHARED = ("n_shared_experts", "num_shared_experts")
_SHARED_WIDTHS = (
    "moe_shared_expert_intermediate_size",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
)


def feed_forward_parameters(text: Configuration) -> int:
    """Of all layers together.

    Raises:
        InvalidConfiguration: A field is missing.
    """
    num_layers = Counter(_kinds(text))
    parameters = 0
    if num_layers[_DENSE]:
        parameters += num_layers[_DENSE] * _of_dense_layer(text)
    if num_layers[_SPARSE]:
        parameters += num_layers[_SPARSE] * _of_sparse_layer(text)
    return parameters


def _kinds(text: Configuration) -> Iterator[str]:
    """What each layer has."""
    if text.has("mlp_layer_types"):
        yield from text.words("mlp_layer_types")
    elif text.has("layers_block_type"):
        yield from (_KIND_OF.get(word, _NONE) for word in text.words("layers_block_type"))
    elif text.has("hybrid_override_pattern"):
        pattern = text.word("hybrid_override_pattern", "")
        yield from (_KIND_OF.get(letter, _NONE) for letter in pattern)
    else:
        has_experts = text.count_or_zero(*_NUM_EXPERTS, default=0) > 0
        for index in range(text.num_layers):
            yield _SPARSE if has_experts and _is_sparse(text, index) else _DENSE


def _is_sparse(text: Configuration, index: int) -> bool:
    """Whether a layer of a model with experts has some."""
    every = text.count("interleave_moe_layer_step", "decoder_sparse_step", default=1)
    period = text.count("expert_layer_period", "moe_layer_freq", default=1)
    offset = text.count_or_zero("expert_layer_offset", default=0)
    dense = text.numbers("mlp_only_layers") if text.has("mlp_only_layers") else []
    return (
        index >= text.count_or_zero("first_k_dense_replace", default=0)
        and (index + 1) % every == 0
        and index % period == offset
        and index not in dense
    )


def _of_dense_layer(text: Configuration) -> int:
    width = text.count(*_DENSE_WIDTHS)
    if text.raw("block_auto_adjust_ff_dim") is True:
        width = 2 * width // 3
    return _num_matrices(text) * text.count("hidden_size") * width


def _of_sparse_layer(text: Configuration) -> int:
    """The router, the experts that a token is sent to, and those that all tokens pass."""
    hidden, num_matrices = text.count("hidden_size"), _num_matrices(text)
    inner = text.count("moe_latent_size", "routed_expert_hidden_size", default=hidden)
    into_and_back = 0 if inner == hidden else 2 * hidden * inner
    routed = text.count(*_NUM_CHOSEN) * num_matrices * inner * text.count(*_EXPERT_WIDTHS)
    shared = num_matrices * hidden * _shared_width(text)
    beside = _of_dense_layer(text) if text.raw("enable_moe_block") is True else 0
    return hidden * text.count(*_NUM_EXPERTS) + into_and_back + routed + shared + beside


def _shared_width(text: Configuration) -> int:
    """Of the experts that all tokens pass, together."""
    if any(text.has(name) for name in _SHARED_WIDTHS):
        return text.count_or_zero(*_SHARED_WIDTHS)
    if any(text.has(name) for name in _NUM_SHARED):
        return text.count_or_zero(*_NUM_SHARED) * text.count(*_EXPERT_WIDTHS)
    # Llama 4 has one and does not count it.
    return text.count("intermediate_size") if text.has("intermediate_size_mlp") else 0


def _num_matrices(text: Configuration) -> int:
    """Into the layer and out of it, and a gate, which a squared activation does without."""
    return 2 if text.word("mlp_hidden_act", "") == "relu2" else 3
