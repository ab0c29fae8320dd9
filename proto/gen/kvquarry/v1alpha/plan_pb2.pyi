from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_KIND_UNSPECIFIED: _ClassVar[GroupKind]
    GROUP_KIND_FULL_ATTENTION: _ClassVar[GroupKind]
    GROUP_KIND_RECURRENT_STATE: _ClassVar[GroupKind]
    GROUP_KIND_SLIDING_WINDOW: _ClassVar[GroupKind]
    GROUP_KIND_CHUNKED_LOCAL: _ClassVar[GroupKind]
    GROUP_KIND_CROSS_ATTENTION: _ClassVar[GroupKind]
    GROUP_KIND_SCRATCH: _ClassVar[GroupKind]
GROUP_KIND_UNSPECIFIED: GroupKind
GROUP_KIND_FULL_ATTENTION: GroupKind
GROUP_KIND_RECURRENT_STATE: GroupKind
GROUP_KIND_SLIDING_WINDOW: GroupKind
GROUP_KIND_CHUNKED_LOCAL: GroupKind
GROUP_KIND_CROSS_ATTENTION: GroupKind
GROUP_KIND_SCRATCH: GroupKind

class GroupSpec(_message.Message):
    __slots__ = ("kind", "block_tokens", "page_bytes", "layer_count", "speculative_block_count", "alignment_bytes", "window_token_count", "is_draft")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAYER_COUNT_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_DRAFT_FIELD_NUMBER: _ClassVar[int]
    kind: GroupKind
    block_tokens: int
    page_bytes: int
    layer_count: int
    speculative_block_count: int
    alignment_bytes: int
    window_token_count: int
    is_draft: bool
    def __init__(self, kind: _Optional[_Union[GroupKind, str]] = ..., block_tokens: _Optional[int] = ..., page_bytes: _Optional[int] = ..., layer_count: _Optional[int] = ..., speculative_block_count: _Optional[int] = ..., alignment_bytes: _Optional[int] = ..., window_token_count: _Optional[int] = ..., is_draft: bool = ...) -> None: ...

class SizeClass(_message.Message):
    __slots__ = ("page_bytes", "stride_bytes", "blocks_per_slab", "block_count", "usable_block_count")
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STRIDE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_PER_SLAB_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    USABLE_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    page_bytes: int
    stride_bytes: int
    blocks_per_slab: int
    block_count: int
    usable_block_count: int
    def __init__(self, page_bytes: _Optional[int] = ..., stride_bytes: _Optional[int] = ..., blocks_per_slab: _Optional[int] = ..., block_count: _Optional[int] = ..., usable_block_count: _Optional[int] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("groups", "size_classes", "class_of_group", "region_count", "slab_size_bytes", "slab_count", "pool_size_bytes")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SIZE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    CLASS_OF_GROUP_FIELD_NUMBER: _ClassVar[int]
    REGION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLAB_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SLAB_COUNT_FIELD_NUMBER: _ClassVar[int]
    POOL_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupSpec]
    size_classes: _containers.RepeatedCompositeFieldContainer[SizeClass]
    class_of_group: _containers.RepeatedScalarFieldContainer[int]
    region_count: int
    slab_size_bytes: int
    slab_count: int
    pool_size_bytes: int
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupSpec, _Mapping]]] = ..., size_classes: _Optional[_Iterable[_Union[SizeClass, _Mapping]]] = ..., class_of_group: _Optional[_Iterable[int]] = ..., region_count: _Optional[int] = ..., slab_size_bytes: _Optional[int] = ..., slab_count: _Optional[int] = ..., pool_size_bytes: _Optional[int] = ...) -> None: ...
