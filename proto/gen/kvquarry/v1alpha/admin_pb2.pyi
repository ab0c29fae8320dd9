from kvquarry.v1alpha import plan_pb2 as _plan_pb2
from kvquarry.v1alpha import pool_pb2 as _pool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("boot_id", "version", "uptime_seconds", "pools")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    version: str
    uptime_seconds: float
    pools: _containers.RepeatedCompositeFieldContainer[PoolStatus]
    def __init__(self, boot_id: _Optional[str] = ..., version: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., pools: _Optional[_Iterable[_Union[PoolStatus, _Mapping]]] = ...) -> None: ...

class PoolStatus(_message.Message):
    __slots__ = ("pool_id", "model", "plan", "revision", "usage", "counters", "attachments", "workers", "worker_count", "request_count", "policies", "null_block_count", "pin_count", "pinned_size_bytes", "pin_cap_size_bytes", "empty_slot_counts", "written_size_bytes", "work")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    NULL_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    PIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    PINNED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIN_CAP_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EMPTY_SLOT_COUNTS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    model: str
    plan: _plan_pb2.Plan
    revision: int
    usage: _pool_pb2.PoolUsage
    counters: PoolCounters
    attachments: _containers.RepeatedCompositeFieldContainer[AttachmentStatus]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    worker_count: int
    request_count: int
    policies: _pool_pb2.Policies
    null_block_count: int
    pin_count: int
    pinned_size_bytes: int
    pin_cap_size_bytes: int
    empty_slot_counts: _containers.RepeatedScalarFieldContainer[int]
    written_size_bytes: int
    work: _pool_pb2.Work
    def __init__(self, pool_id: _Optional[str] = ..., model: _Optional[str] = ..., plan: _Optional[_Union[_plan_pb2.Plan, _Mapping]] = ..., revision: _Optional[int] = ..., usage: _Optional[_Union[_pool_pb2.PoolUsage, _Mapping]] = ..., counters: _Optional[_Union[PoolCounters, _Mapping]] = ..., attachments: _Optional[_Iterable[_Union[AttachmentStatus, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., worker_count: _Optional[int] = ..., request_count: _Optional[int] = ..., policies: _Optional[_Union[_pool_pb2.Policies, _Mapping]] = ..., null_block_count: _Optional[int] = ..., pin_count: _Optional[int] = ..., pinned_size_bytes: _Optional[int] = ..., pin_cap_size_bytes: _Optional[int] = ..., empty_slot_counts: _Optional[_Iterable[int]] = ..., written_size_bytes: _Optional[int] = ..., work: _Optional[_Union[_pool_pb2.Work, _Mapping]] = ...) -> None: ...

class PoolCounters(_message.Message):
    __slots__ = ("query_tokens", "hit_tokens", "admission_count", "refusal_count", "commit_count", "eviction_counts", "class_changes", "move_counts", "miss_tokens", "pin_count", "refused_pin_count", "broken_pin_count")
    QUERY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    EVICTION_COUNTS_FIELD_NUMBER: _ClassVar[int]
    CLASS_CHANGES_FIELD_NUMBER: _ClassVar[int]
    MOVE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MISS_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_PIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    BROKEN_PIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    query_tokens: int
    hit_tokens: int
    admission_count: int
    refusal_count: int
    commit_count: int
    eviction_counts: _containers.RepeatedScalarFieldContainer[int]
    class_changes: _containers.RepeatedCompositeFieldContainer[ClassChange]
    move_counts: _containers.RepeatedScalarFieldContainer[int]
    miss_tokens: int
    pin_count: int
    refused_pin_count: int
    broken_pin_count: int
    def __init__(self, query_tokens: _Optional[int] = ..., hit_tokens: _Optional[int] = ..., admission_count: _Optional[int] = ..., refusal_count: _Optional[int] = ..., commit_count: _Optional[int] = ..., eviction_counts: _Optional[_Iterable[int]] = ..., class_changes: _Optional[_Iterable[_Union[ClassChange, _Mapping]]] = ..., move_counts: _Optional[_Iterable[int]] = ..., miss_tokens: _Optional[int] = ..., pin_count: _Optional[int] = ..., refused_pin_count: _Optional[int] = ..., broken_pin_count: _Optional[int] = ...) -> None: ...

class ClassChange(_message.Message):
    __slots__ = ("from_class", "to_class", "count")
    FROM_CLASS_FIELD_NUMBER: _ClassVar[int]
    TO_CLASS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    from_class: int
    to_class: int
    count: int
    def __init__(self, from_class: _Optional[int] = ..., to_class: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class AttachmentStatus(_message.Message):
    __slots__ = ("engine", "incarnation", "attached", "lease_remaining_seconds", "last_batch_number")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_NUMBER_FIELD_NUMBER: _ClassVar[int]
    engine: str
    incarnation: int
    attached: bool
    lease_remaining_seconds: float
    last_batch_number: int
    def __init__(self, engine: _Optional[str] = ..., incarnation: _Optional[int] = ..., attached: bool = ..., lease_remaining_seconds: _Optional[float] = ..., last_batch_number: _Optional[int] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("rank", "device", "buffer_size_bytes", "digest")
    RANK_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    rank: int
    device: str
    buffer_size_bytes: int
    digest: str
    def __init__(self, rank: _Optional[int] = ..., device: _Optional[str] = ..., buffer_size_bytes: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class ListPinsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPinsResponse(_message.Message):
    __slots__ = ("pins",)
    PINS_FIELD_NUMBER: _ClassVar[int]
    pins: _containers.RepeatedCompositeFieldContainer[PinStatus]
    def __init__(self, pins: _Optional[_Iterable[_Union[PinStatus, _Mapping]]] = ...) -> None: ...

class PinStatus(_message.Message):
    __slots__ = ("engine", "pool_id", "pin_id", "token_count", "size_bytes", "remaining_seconds")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REMAINING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    engine: str
    pool_id: str
    pin_id: str
    token_count: int
    size_bytes: int
    remaining_seconds: float
    def __init__(self, engine: _Optional[str] = ..., pool_id: _Optional[str] = ..., pin_id: _Optional[str] = ..., token_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., remaining_seconds: _Optional[float] = ...) -> None: ...

class UnpinRequest(_message.Message):
    __slots__ = ("pin_ids", "engine")
    PIN_IDS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    pin_ids: _containers.RepeatedScalarFieldContainer[str]
    engine: str
    def __init__(self, pin_ids: _Optional[_Iterable[str]] = ..., engine: _Optional[str] = ...) -> None: ...

class UnpinResponse(_message.Message):
    __slots__ = ("ended_count", "missing_pin_ids", "engine_missing")
    ENDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISSING_PIN_IDS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_MISSING_FIELD_NUMBER: _ClassVar[int]
    ended_count: int
    missing_pin_ids: _containers.RepeatedScalarFieldContainer[str]
    engine_missing: bool
    def __init__(self, ended_count: _Optional[int] = ..., missing_pin_ids: _Optional[_Iterable[str]] = ..., engine_missing: bool = ...) -> None: ...
