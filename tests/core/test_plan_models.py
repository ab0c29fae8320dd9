"""Every published model shape is cut with little padding and little left over.

``data/models.json``: layer counts and bytes of public models, tensor parallel size 1.
"""

import json
import math
from pathlib import Path
from typing import TypedDict

import pytest

from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from tests.core.geometry import check_alignment, check_geometry, padding_of
from tests.core.reference import ever_fits

GIB = 2**30
BLOCK_TOKENS = 16


class Model(TypedDict, total=False):
    """What the file says of a model."""

    model: str
    full_attention_layers: int
    full_attention_bytes_per_token_per_layer: int
    state_layers: int
    state_bytes_per_layer: int
    windowed_layers: int
    windowed_bytes_per_token_per_layer: int
    stock_vllm_state_padding_pct: float


MODELS: list[Model] = json.loads((Path(__file__).parent / "data/models.json").read_text())["models"]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model["model"])


def groups_of(model: Model, block_tokens: int) -> list[GroupSpec]:
    """Groups of as many layers as there are of full attention, as vLLM makes them."""
    num_layers = model["full_attention_layers"]

    def layers(kind: GroupKind, page_bytes: int, count: int) -> list[GroupSpec]:
        spec = GroupSpec(kind, block_tokens, page_bytes, num_layers)
        return [spec] * math.ceil(count / num_layers)

    token_bytes = model["full_attention_bytes_per_token_per_layer"]
    groups = layers(GroupKind.FULL_ATTENTION, token_bytes * block_tokens, num_layers)
    if "state_layers" in model:
        states = model["state_bytes_per_layer"]
        groups += layers(GroupKind.RECURRENT_STATE, states, model["state_layers"])
    if "windowed_layers" in model:
        page_bytes = model["windowed_bytes_per_token_per_layer"] * block_tokens
        groups += layers(GroupKind.FULL_ATTENTION, page_bytes, model["windowed_layers"])
    return groups


@every_model
@pytest.mark.parametrize("gib", [20, 80])
def test_padding_and_leftover_are_bounded(model: Model, gib: int) -> None:
    groups = groups_of(model, BLOCK_TOKENS)
    plan = make_plan(groups, gib * GIB)
    check_geometry(plan, groups, gib * GIB)
    check_alignment(plan)
    for index in range(len(plan.classes)):
        assert padding_of(plan, ClassId(index)) < 0.055
    assert plan.pool_bytes > gib * GIB * 0.994


@every_model
@pytest.mark.parametrize("block_tokens", [1, 16, 32, 64, 128, 528])
def test_any_block_size_of_the_user_is_kept(model: Model, block_tokens: int) -> None:
    groups = groups_of(model, block_tokens)
    plan = make_plan(groups, 80 * GIB)
    check_geometry(plan, groups, 80 * GIB)
    assert plan.hash_tokens == block_tokens
    assert ever_fits(plan, [1] * len(plan.classes))


@pytest.mark.parametrize(
    "model", [model for model in MODELS if "state_layers" in model], ids=lambda m: m["model"]
)
def test_states_are_padded_no_more_than_by_stock_vllm(model: Model) -> None:
    plan = make_plan(groups_of(model, BLOCK_TOKENS), 20 * GIB)
    padding = padding_of(plan, plan.class_of_group[-1])
    assert 100 * padding <= model["stock_vllm_state_padding_pct"] + 0.005
