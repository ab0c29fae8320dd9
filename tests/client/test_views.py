"""Aliased views: one memory, seen as blocks of several sizes."""

import pytest
import torch

from kvquarry_client.kernel_blocks import (
    KernelBlocks,
    MultipleOf,
    NoCommonKernelBlock,
    select_kernel_blocks,
)
from kvquarry_client.views import LayerTensors, Part, build_views, layer_view, views_digest
from kvquarry_core.ids import GroupId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.worker_layout import Arrangement, LayerView, check_worker, planned_views

ATTENTION = GroupSpec(GroupKind.FULL_ATTENTION, 16, 2 * 16 * 8 * 2, 3)
STATE = GroupSpec(GroupKind.RECURRENT_STATE, 16, 3 * 20 * 2 + 4 * 7 * 9 * 4, 3)
ATTENTION_PAGE = (Part((2, 16, 8), torch.bfloat16),)
STATE_PAGE = (Part((3, 20), torch.bfloat16), Part((4, 7, 9), torch.float32))
PAGES = (ATTENTION_PAGE, STATE_PAGE)

Views = list[list[LayerTensors]]


BOTH = pytest.mark.parametrize("arrangement", Arrangement)


def built(
    arrangement: Arrangement = Arrangement.LAYER_OUTERMOST,
) -> tuple[Plan, torch.Tensor, Views]:
    plan = make_plan([ATTENTION, STATE], 60_000)
    buffer = torch.zeros(plan.pool_bytes, dtype=torch.int8)
    return plan, buffer, build_views(plan, buffer, PAGES, arrangement)


def block_bytes(plan: Plan, buffer: torch.Tensor, group: int, layer: int, block: int) -> bytes:
    """The bytes of a block in one layer, found by the definition of a block id alone."""
    size_class = plan.classes[plan.class_of_group[group]]
    start = layer * plan.region_bytes + block * size_class.stride_bytes
    return buffer[start : start + size_class.page_bytes].numpy().tobytes()


def stamp(tensors: LayerTensors, block: int, value: int) -> None:
    """Write a recognisable value over one block in one layer."""
    for tensor in tensors:
        tensor[block] = value


def content(tensors: LayerTensors, block: int) -> bytes:
    """A block's content as its tensors show it, one after another."""
    parts = (tensor[block].contiguous().view(torch.int8) for tensor in tensors)
    return b"".join(part.numpy().tobytes() for part in parts)


def stamped(tensors: LayerTensors, block: int, value: int) -> bool:
    return all(bool((tensor[block] == value).all()) for tensor in tensors)


def test_shapes_are_blocks_of_parts() -> None:
    plan, _, views = built()
    attention, states = plan.classes[plan.class_of_group[0]], plan.classes[plan.class_of_group[1]]
    for layer in range(3):
        assert [t.shape for t in views[0][layer]] == [(attention.num_blocks, 2, 16, 8)]
        assert [t.shape for t in views[1][layer]] == [
            (states.num_blocks, 3, 20),
            (states.num_blocks, 4, 7, 9),
        ]
        assert [t.dtype for t in views[1][layer]] == [torch.bfloat16, torch.float32]


def test_a_block_written_through_a_view_is_at_its_stride() -> None:
    """Layers outermost, as a block id is defined: byte `i * stride` of the layer's region."""
    plan, buffer, views = built()
    for group, layers in enumerate(views):
        for layer, tensors in enumerate(layers):
            for block in (0, 1, tensors[0].shape[0] - 1):
                stamp(tensors, block, 7)
                content = b"".join(
                    t[block].contiguous().view(torch.int8).numpy().tobytes() for t in tensors
                )
                assert block_bytes(plan, buffer, group, layer, block) == content
                buffer.zero_()


def test_a_write_through_one_view_reaches_exactly_the_blocks_under_it() -> None:
    """A fake engine stamps a state; the attention blocks that share its bytes change, no other."""
    plan, buffer, views = built()
    attention, states = plan.classes[plan.class_of_group[0]], plan.classes[plan.class_of_group[1]]
    for block in range(states.num_blocks):
        buffer.zero_()
        stamp(views[1][1], block, 3)
        changed = {
            other for other in range(attention.num_blocks) if views[0][1][0][other].any().item()
        }
        first = block * states.stride_bytes
        last = first + states.page_bytes - 1
        under = set(range(first // attention.stride_bytes, last // attention.stride_bytes + 1))
        assert changed == under
        assert not views[0][0][0].any()
        assert not views[0][2][0].any()


@BOTH
def test_blocks_of_one_class_never_touch_each_other(arrangement: Arrangement) -> None:
    _, _, views = built(arrangement)
    for layers in views:
        for layer, tensors in enumerate(layers):
            for block in range(tensors[0].shape[0]):
                stamp(tensors, block, block % 100 + layer)
        for layer, tensors in enumerate(layers):
            for block in range(tensors[0].shape[0]):
                assert stamped(tensors, block, block % 100 + layer)


def test_with_blocks_outermost_a_block_is_one_stretch_of_bytes() -> None:
    plan, buffer, views = built(Arrangement.BLOCK_OUTERMOST)
    for group, layers in enumerate(views):
        stride = plan.classes[plan.class_of_group[group]].stride_bytes * plan.num_regions
        for block in (0, 1, layers[0][0].shape[0] - 1):
            for tensors in layers:
                stamp(tensors, block, 5)
            elsewhere = torch.cat([buffer[: block * stride], buffer[(block + 1) * stride :]])
            assert not elsewhere.any()
            assert buffer[block * stride]
            buffer.zero_()


@BOTH
def test_disjoint_slabs_keep_both_classes_contents(arrangement: Arrangement) -> None:
    """Slab by slab one class, then the other: what the accounting promises, checked in contents."""
    plan, _, views = built(arrangement)
    owners = [slab % 2 for slab in range(plan.num_slabs)]
    written = []
    for slab, group in enumerate(owners):
        per_slab = plan.classes[plan.class_of_group[group]].blocks_per_slab
        for block in range(slab * per_slab, (slab + 1) * per_slab):
            for layer in range(3):
                value = (slab * 31 + block * 7 + layer) % 100 + 1
                stamp(views[group][layer], block, value)
                written.append((group, layer, block, value))
    assert {group for group, *_ in written} == {0, 1}
    for group, layer, block, value in written:
        assert stamped(views[group][layer], block, value)


@BOTH
def test_the_layers_of_a_plan_are_where_it_says(arrangement: Arrangement) -> None:
    plan, buffer, views = built(arrangement)
    found = [
        layer_view(f"group {group} layer {layer}", GroupId(group), tensors)
        for group, layers in enumerate(views)
        for layer, tensors in enumerate(layers)
    ]
    assert found == list(planned_views(plan, arrangement))
    check_worker(plan, found, buffer.numel())


def test_a_layer_in_kernel_blocks_counts_whole_blocks() -> None:
    plan, _, views = built()
    kernel_blocks = KernelBlocks(16, 8)
    split = kernel_blocks.split(views[0][1][0])
    expected = layer_view("a", GroupId(0), views[0][1])
    found = layer_view("a", GroupId(0), (split,), kernel_blocks)
    assert (
        found
        == expected
        == LayerView("a", GroupId(0), plan.region_bytes, ATTENTION.page_bytes, expected.num_blocks)
    )


def test_a_digest_knows_offset_shape_stride_dtype_and_name() -> None:
    _, _, views = built()
    layers = {"a": views[0][0], "s": views[1][0]}
    digest = views_digest(layers)
    conv, ssm = views[1][0]
    others = [
        {"a": views[0][1], "s": views[1][0]},
        {"a": (views[0][0][0][:-1],), "s": views[1][0]},
        {"a": (views[0][0][0].transpose(2, 3),), "s": views[1][0]},
        {"a": (views[0][0][0].view(torch.float16),), "s": views[1][0]},
        {"b": views[0][0], "s": views[1][0]},
        {"a": views[0][0], "s": (ssm, conv)},
        {"a": views[0][0]},
    ]
    digests = [views_digest(other) for other in others]
    assert digest not in digests
    assert len(set(digests)) == len(digests)


def test_a_digest_does_not_depend_on_the_order_of_layers_or_the_content() -> None:
    _, buffer, views = built()
    digest = views_digest({"a": views[0][0], "s": views[1][0]})
    buffer.fill_(1)
    assert views_digest({"s": views[1][0], "a": views[0][0]}) == digest


def test_a_digest_is_the_same_in_another_buffer() -> None:
    _, _, first = built()
    _, _, second = built()
    assert views_digest({"a": first[0][2]}) == views_digest({"a": second[0][2]})


def test_a_larger_buffer_is_as_good() -> None:
    plan, _, views = built()
    buffer = torch.zeros(plan.pool_bytes + 4096, dtype=torch.uint8)
    larger = build_views(plan, buffer, PAGES)
    assert views_digest({"s": larger[1][2]}) == views_digest({"s": views[1][2]})


@pytest.mark.parametrize(
    ("buffer", "complaint"),
    [
        (torch.zeros(100, dtype=torch.int8), "the plan needs"),
        (torch.zeros(60_000, dtype=torch.int16), "one byte"),
        (torch.zeros((60_000, 2), dtype=torch.int8)[:, 0], "contiguous"),
    ],
)
def test_an_unfit_buffer_is_refused(buffer: torch.Tensor, complaint: str) -> None:
    plan, _, _ = built()
    with pytest.raises(ValueError, match=complaint):
        build_views(plan, buffer, PAGES)


def test_pages_of_another_size_are_refused() -> None:
    plan, buffer, _ = built()
    with pytest.raises(ValueError, match="group 1 take"):
        build_views(plan, buffer, (ATTENTION_PAGE, ATTENTION_PAGE))
    with pytest.raises(ValueError, match="2 groups, not 1"):
        build_views(plan, buffer, (ATTENTION_PAGE,))


@pytest.mark.parametrize(
    ("block_tokens", "backends", "expected"),
    [
        (64, [[MultipleOf(16)]], 64),
        (64, [[16, 32]], 32),
        (64, [[64], [MultipleOf(32)]], 64),
        (128, [[64], [MultipleOf(32)]], 64),
        (128, [[16, 64], [16, 32]], 16),
        (96, [[MultipleOf(32)], [48, 16]], None),
        (96, [[MultipleOf(16)], [48, 16]], 48),
        (48, [[64]], None),
    ],
)
def test_the_largest_common_kernel_block_is_chosen(
    block_tokens: int, backends: list[list[int | MultipleOf]], expected: int | None
) -> None:
    if expected is None:
        with pytest.raises(NoCommonKernelBlock, match=str(block_tokens)):
            select_kernel_blocks(block_tokens, backends)
    else:
        assert select_kernel_blocks(block_tokens, backends).kernel_block_tokens == expected


def test_kernel_block_j_of_block_b_is_b_times_k_plus_j() -> None:
    table = torch.tensor([[3, 0], [1, 7]])
    by_three = KernelBlocks(48, 16).table(table)
    assert by_three.tolist() == [[9, 10, 11, 0, 1, 2], [3, 4, 5, 21, 22, 23]]
    assert KernelBlocks(48, 48).table(table) is table


def test_a_converted_table_lies_where_the_kernels_look_for_it() -> None:
    """Captured graphs know an address, within a buffer wider than this step's table."""
    buffer = torch.full((3, 8), -1, dtype=torch.int32)
    table = torch.tensor([[3, 0], [1, 7]], dtype=torch.int32)
    converted = KernelBlocks(48, 16).table(table, within=torch.arange(3), out=buffer[:2, :6])
    assert converted.data_ptr() == buffer.data_ptr()
    assert buffer[:2, :6].tolist() == [[9, 10, 11, 0, 1, 2], [3, 4, 5, 21, 22, 23]]
    assert (buffer[2] == -1).all()
    assert (buffer[:, 6:] == -1).all()


@pytest.mark.parametrize("kernel_block_tokens", [16, 8, 4, 1])
def test_kernel_blocks_of_a_block_are_its_bytes(kernel_block_tokens: int) -> None:
    """What a kernel reads through kernel block ids is what the block holds, in order."""
    _, _, views = built()
    blocks = views[0][2][0]
    torch.manual_seed(0)
    blocks.copy_(torch.randn(blocks.shape))
    kernel_blocks = KernelBlocks(16, kernel_block_tokens)
    split = kernel_blocks.split(blocks)
    assert split.shape[1:] == (2, kernel_block_tokens, 8)
    ids = kernel_blocks.table(torch.tensor([5, 2]))
    assert torch.equal(split[ids].flatten(), blocks[[5, 2]].flatten())
    split[ids[-1], 0, 0, 0] = 7.0
    assert bool((blocks[2] == 7.0).any())


def test_blocks_with_other_bytes_between_them_are_not_split() -> None:
    """Kernel blocks lie one stride apart, which the bytes of another layer would break."""
    _, _, views = built(Arrangement.BLOCK_OUTERMOST)
    blocks = views[0][0][0]
    assert KernelBlocks(16, 16).split(blocks) is blocks
    with pytest.raises(ValueError, match="not dense blocks of 16 tokens"):
        KernelBlocks(16, 8).split(blocks)


def test_of_two_ranks_each_holds_half_of_what_a_block_covers() -> None:
    kernel_blocks = select_kernel_blocks(4, [[2]], num_ranks=2, interleave_tokens=2)
    assert (kernel_blocks.per_block, kernel_blocks.span_tokens) == (2, 8)
    blocks, positions = torch.tensor([3, 1]), torch.arange(10)
    held = [kernel_blocks.slots(blocks, positions, rank=rank).tolist() for rank in (0, 1)]
    assert held[0] == [12, 13, -1, -1, 14, 15, -1, -1, 4, 5]
    assert held[1] == [-1, -1, 12, 13, -1, -1, 14, 15, -1, -1]


def test_sizes_that_do_not_divide_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="kernel blocks of 24"):
        KernelBlocks(64, 24)
    with pytest.raises(ValueError, match="stretches of 5"):
        KernelBlocks(64, 16, 2, 5)
