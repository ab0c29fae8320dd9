"""C22: what makes content differ is part of its name, in a field of its own and whole.

The names are vLLM's: this holds the version that is installed to it, through the pool.
"""

from collections.abc import Sequence

import pytest
from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request

from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_core.ids import BlockHash
from kvquarry_core.retention import Landmarks
from tests.client.pools import ATTENTION, BLOCK, engine

init_none_hash(sha256_cbor)
NUM_BLOCKS = 4
#: As an image's content is named: 256 bits.
IMAGE = "5b" * 32


def image(name: str) -> list[MultiModalFeatureSpec]:
    place = PlaceholderRange(offset=0, length=BLOCK)
    return [MultiModalFeatureSpec(None, "image", name, place)]


def adapter(name: str, path: str, number: int = 1) -> LoRARequest:
    return LoRARequest(name, number, path)


MEANT = {
    "plain": {},
    "a salt": {"cache_salt": "x"},
    "an adapter of the salt's name": {"lora_request": adapter("x", "/first")},
    "other weights under its name": {"lora_request": adapter("x", "/second")},
    "another adapter with its number": {"lora_request": adapter("y", "/first")},
    "an image": {"mm_features": image(IMAGE)},
    "an image that begins alike": {"mm_features": image(IMAGE[:-1] + "c")},
    "an image that ends alike": {"mm_features": image("6" + IMAGE[1:])},
    "an image of the salt's name": {"mm_features": image("x")},
}


def names_of(meaning: str) -> Sequence[BlockHash]:
    """vLLM's hashes of one text that means something else each time."""
    request = Request(
        request_id=meaning,
        prompt_token_ids=list(range(NUM_BLOCKS * BLOCK)),
        sampling_params=SamplingParams(max_tokens=1),
        pooling_params=None,
        block_hasher=get_request_block_hasher(BLOCK, sha256_cbor),
        **MEANT[meaning],
    )
    return [BlockHash(name) for name in request.block_hashes]


@pytest.mark.parametrize("written", MEANT)
def test_c22_a_text_is_found_only_where_it_means_the_same(written: str) -> None:
    quarry, num_tokens = engine((ATTENTION,)), NUM_BLOCKS * BLOCK
    writer = Waiting("writes", names_of(written), num_tokens)
    quarry.shadow.lookup(writer)
    allocation = Allocation(num_tokens, num_tokens, 0)
    assert quarry.shadow.allocate_first(writer, allocation, keep_free=False) is not None
    quarry.shadow.commit("writes", writer.hashes, num_tokens, Landmarks((num_tokens,)))
    found = {}
    for meaning in MEANT:
        reader = Waiting(f"reads {meaning}", names_of(meaning), num_tokens + 1)
        found[meaning] = quarry.shadow.lookup(reader).hit_tokens
    assert found == {meaning: num_tokens if meaning == written else 0 for meaning in MEANT}
