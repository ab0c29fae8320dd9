"""Layers are put into groups of one format and of equal length."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kvquarry_tools.models import find_model, known_models
from kvquarry_tools.models.grouping import group_layers
from tests.strategies import examples

LAYERS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=80)


@examples(200)
@given(LAYERS)
def test_every_layer_is_in_one_group_of_its_format(layers: list[str]) -> None:
    counts: Counter[str] = Counter()
    for group in group_layers(layers):
        counts[group.format] += group.num_layers
    assert counts == Counter(layers)


@examples(200)
@given(LAYERS)
def test_groups_of_a_format_differ_by_one_layer_at_most(layers: list[str]) -> None:
    groups = group_layers(layers)
    for layer_format in set(layers):
        lengths = [group.num_layers for group in groups if group.format == layer_format]
        assert max(lengths) - min(lengths) <= 1
        assert lengths == sorted(lengths, reverse=True)


@examples(200)
@given(LAYERS)
def test_no_group_is_longer_than_the_rarest_format_unless_all_are_close(layers: list[str]) -> None:
    counts = Counter(layers).values()
    longest = max(group.num_layers for group in group_layers(layers))
    if max(counts) < 1.5 * min(counts):
        assert longest == max(counts)
    else:
        assert longest <= min(counts)


def test_three_states_to_one_attention_make_four_groups() -> None:
    assert [group.num_layers for group in find_model("Qwen3.6-35B-A3B").groups()] == [10] * 4


def test_groups_are_known_for_every_known_model() -> None:
    for name in known_models():
        served = find_model(name)
        assert sum(group.num_layers for group in served.groups()) == len(served.layers)
