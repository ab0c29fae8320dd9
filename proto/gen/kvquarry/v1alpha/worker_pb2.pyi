from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterWorkerRequest(_message.Message):
    __slots__ = ("pool_id", "incarnation", "rank", "worker_count", "device", "buffer_size_bytes", "layers", "digest")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    incarnation: int
    rank: int
    worker_count: int
    device: str
    buffer_size_bytes: int
    layers: _containers.RepeatedCompositeFieldContainer[LayerView]
    digest: bytes
    def __init__(self, pool_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., rank: _Optional[int] = ..., worker_count: _Optional[int] = ..., device: _Optional[str] = ..., buffer_size_bytes: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[LayerView, _Mapping]]] = ..., digest: _Optional[bytes] = ...) -> None: ...

class LayerView(_message.Message):
    __slots__ = ("layer", "group", "offset_bytes", "stride_bytes", "block_count")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    STRIDE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    layer: str
    group: int
    offset_bytes: int
    stride_bytes: int
    block_count: int
    def __init__(self, layer: _Optional[str] = ..., group: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., stride_bytes: _Optional[int] = ..., block_count: _Optional[int] = ...) -> None: ...

class RegisterWorkerResponse(_message.Message):
    __slots__ = ("registered_count", "boot_id")
    REGISTERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    registered_count: int
    boot_id: str
    def __init__(self, registered_count: _Optional[int] = ..., boot_id: _Optional[str] = ...) -> None: ...
