from kvquarry.v1alpha import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RefusalCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_CAUSE_UNSPECIFIED: _ClassVar[RefusalCause]
    REFUSAL_CAUSE_SHORTAGE: _ClassVar[RefusalCause]
    REFUSAL_CAUSE_SAME_STEP: _ClassVar[RefusalCause]
    REFUSAL_CAUSE_NEVER_FITS: _ClassVar[RefusalCause]

class PinRefusalCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PIN_REFUSAL_CAUSE_UNSPECIFIED: _ClassVar[PinRefusalCause]
    PIN_REFUSAL_CAUSE_NOTHING_CACHED: _ClassVar[PinRefusalCause]
    PIN_REFUSAL_CAUSE_OVER_CAP: _ClassVar[PinRefusalCause]
    PIN_REFUSAL_CAUSE_PROMISED: _ClassVar[PinRefusalCause]
    PIN_REFUSAL_CAUSE_TOO_MANY: _ClassVar[PinRefusalCause]
REFUSAL_CAUSE_UNSPECIFIED: RefusalCause
REFUSAL_CAUSE_SHORTAGE: RefusalCause
REFUSAL_CAUSE_SAME_STEP: RefusalCause
REFUSAL_CAUSE_NEVER_FITS: RefusalCause
PIN_REFUSAL_CAUSE_UNSPECIFIED: PinRefusalCause
PIN_REFUSAL_CAUSE_NOTHING_CACHED: PinRefusalCause
PIN_REFUSAL_CAUSE_OVER_CAP: PinRefusalCause
PIN_REFUSAL_CAUSE_PROMISED: PinRefusalCause
PIN_REFUSAL_CAUSE_TOO_MANY: PinRefusalCause

class OpenPoolRequest(_message.Message):
    __slots__ = ("engine", "groups", "pool_size_bytes", "worker_count", "model", "policies", "work", "hears_no_evictions")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    POOL_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    HEARS_NO_EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    engine: str
    groups: _containers.RepeatedCompositeFieldContainer[_plan_pb2.GroupSpec]
    pool_size_bytes: int
    worker_count: int
    model: str
    policies: Policies
    work: Work
    hears_no_evictions: bool
    def __init__(self, engine: _Optional[str] = ..., groups: _Optional[_Iterable[_Union[_plan_pb2.GroupSpec, _Mapping]]] = ..., pool_size_bytes: _Optional[int] = ..., worker_count: _Optional[int] = ..., model: _Optional[str] = ..., policies: _Optional[_Union[Policies, _Mapping]] = ..., work: _Optional[_Union[Work, _Mapping]] = ..., hears_no_evictions: bool = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("token_flops", "token_pair_flops")
    TOKEN_FLOPS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_PAIR_FLOPS_FIELD_NUMBER: _ClassVar[int]
    token_flops: float
    token_pair_flops: float
    def __init__(self, token_flops: _Optional[float] = ..., token_pair_flops: _Optional[float] = ...) -> None: ...

class Policies(_message.Message):
    __slots__ = ("placement", "eviction", "relocation", "retention")
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    EVICTION_FIELD_NUMBER: _ClassVar[int]
    RELOCATION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    placement: str
    eviction: str
    relocation: str
    retention: str
    def __init__(self, placement: _Optional[str] = ..., eviction: _Optional[str] = ..., relocation: _Optional[str] = ..., retention: _Optional[str] = ...) -> None: ...

class OpenPoolResponse(_message.Message):
    __slots__ = ("pool_id", "incarnation", "plan", "boot_id", "lease_seconds", "attach_seconds", "earlier_was_attached", "policies")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ATTACH_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EARLIER_WAS_ATTACHED_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    incarnation: int
    plan: _plan_pb2.Plan
    boot_id: str
    lease_seconds: float
    attach_seconds: float
    earlier_was_attached: bool
    policies: Policies
    def __init__(self, pool_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., plan: _Optional[_Union[_plan_pb2.Plan, _Mapping]] = ..., boot_id: _Optional[str] = ..., lease_seconds: _Optional[float] = ..., attach_seconds: _Optional[float] = ..., earlier_was_attached: bool = ..., policies: _Optional[_Union[Policies, _Mapping]] = ...) -> None: ...

class ClosePoolRequest(_message.Message):
    __slots__ = ("pool_id", "incarnation")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    incarnation: int
    def __init__(self, pool_id: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class ClosePoolResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("hello", "batch", "following")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    batch: Batch
    following: _containers.RepeatedCompositeFieldContainer[Batch]
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., following: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("pool_id", "incarnation")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    incarnation: int
    def __init__(self, pool_id: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("number", "operations", "quiet", "empty_slot_counts")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    EMPTY_SLOT_COUNTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    quiet: bool
    empty_slot_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., quiet: bool = ..., empty_slot_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("admit", "grow", "take", "settle", "commit", "drop", "free", "begin_step", "forget", "reset_cache", "lease", "grant_ahead", "give_back", "compare_books", "pin", "unpin")
    ADMIT_FIELD_NUMBER: _ClassVar[int]
    GROW_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_STEP_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    RESET_CACHE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    GRANT_AHEAD_FIELD_NUMBER: _ClassVar[int]
    GIVE_BACK_FIELD_NUMBER: _ClassVar[int]
    COMPARE_BOOKS_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    UNPIN_FIELD_NUMBER: _ClassVar[int]
    admit: Admit
    grow: Grow
    take: Take
    settle: Settle
    commit: Commit
    drop: Drop
    free: Free
    begin_step: BeginStep
    forget: Forget
    reset_cache: ResetCache
    lease: Lease
    grant_ahead: GrantAhead
    give_back: GiveBack
    compare_books: CompareBooks
    pin: Pin
    unpin: Unpin
    def __init__(self, admit: _Optional[_Union[Admit, _Mapping]] = ..., grow: _Optional[_Union[Grow, _Mapping]] = ..., take: _Optional[_Union[Take, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., drop: _Optional[_Union[Drop, _Mapping]] = ..., free: _Optional[_Union[Free, _Mapping]] = ..., begin_step: _Optional[_Union[BeginStep, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., reset_cache: _Optional[_Union[ResetCache, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., grant_ahead: _Optional[_Union[GrantAhead, _Mapping]] = ..., give_back: _Optional[_Union[GiveBack, _Mapping]] = ..., compare_books: _Optional[_Union[CompareBooks, _Mapping]] = ..., pin: _Optional[_Union[Pin, _Mapping]] = ..., unpin: _Optional[_Union[Unpin, _Mapping]] = ...) -> None: ...

class Admit(_message.Message):
    __slots__ = ("handle", "hashes", "token_count", "max_hit_tokens", "max_grant_tokens", "lookahead_tokens", "must_fit_tokens", "keep_free_block_counts", "states_are_leased", "in_flight_tokens", "encoder_tokens", "priority")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_GRANT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOOKAHEAD_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MUST_FIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FREE_BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    STATES_ARE_LEASED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ENCODER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    handle: int
    hashes: _containers.RepeatedScalarFieldContainer[bytes]
    token_count: int
    max_hit_tokens: int
    max_grant_tokens: int
    lookahead_tokens: int
    must_fit_tokens: int
    keep_free_block_counts: _containers.RepeatedScalarFieldContainer[int]
    states_are_leased: bool
    in_flight_tokens: int
    encoder_tokens: int
    priority: int
    def __init__(self, handle: _Optional[int] = ..., hashes: _Optional[_Iterable[bytes]] = ..., token_count: _Optional[int] = ..., max_hit_tokens: _Optional[int] = ..., max_grant_tokens: _Optional[int] = ..., lookahead_tokens: _Optional[int] = ..., must_fit_tokens: _Optional[int] = ..., keep_free_block_counts: _Optional[_Iterable[int]] = ..., states_are_leased: bool = ..., in_flight_tokens: _Optional[int] = ..., encoder_tokens: _Optional[int] = ..., priority: _Optional[int] = ...) -> None: ...

class Grow(_message.Message):
    __slots__ = ("handle", "block_counts")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    block_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handle: _Optional[int] = ..., block_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("block_counts",)
    BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    block_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, block_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class GrantAhead(_message.Message):
    __slots__ = ("handles", "block_counts")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    block_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., block_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class GiveBack(_message.Message):
    __slots__ = ("groups", "block_counts", "blocks")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    block_counts: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, groups: _Optional[_Iterable[int]] = ..., block_counts: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class Take(_message.Message):
    __slots__ = ("handles", "groups", "block_counts")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    block_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., groups: _Optional[_Iterable[int]] = ..., block_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("handles",)
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("handles", "kinds", "row_counts", "hashes", "blocks", "places")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNTS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    kinds: _containers.RepeatedScalarFieldContainer[int]
    row_counts: _containers.RepeatedScalarFieldContainer[int]
    hashes: _containers.RepeatedScalarFieldContainer[bytes]
    blocks: _containers.RepeatedScalarFieldContainer[int]
    places: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., kinds: _Optional[_Iterable[int]] = ..., row_counts: _Optional[_Iterable[int]] = ..., hashes: _Optional[_Iterable[bytes]] = ..., blocks: _Optional[_Iterable[int]] = ..., places: _Optional[_Iterable[int]] = ...) -> None: ...

class Drop(_message.Message):
    __slots__ = ("handles", "groups", "block_counts", "blocks")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    block_counts: _containers.RepeatedScalarFieldContainer[int]
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., groups: _Optional[_Iterable[int]] = ..., block_counts: _Optional[_Iterable[int]] = ..., blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class Free(_message.Message):
    __slots__ = ("handles",)
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ...) -> None: ...

class BeginStep(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Forget(_message.Message):
    __slots__ = ("group", "blocks")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    group: int
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class CompareBooks(_message.Message):
    __slots__ = ("revision", "digest")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    revision: int
    digest: bytes
    def __init__(self, revision: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class ResetCache(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Pin(_message.Message):
    __slots__ = ("pin_id", "hashes", "ttl_seconds")
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    pin_id: str
    hashes: _containers.RepeatedScalarFieldContainer[bytes]
    ttl_seconds: float
    def __init__(self, pin_id: _Optional[str] = ..., hashes: _Optional[_Iterable[bytes]] = ..., ttl_seconds: _Optional[float] = ...) -> None: ...

class Unpin(_message.Message):
    __slots__ = ("pin_ids",)
    PIN_IDS_FIELD_NUMBER: _ClassVar[int]
    pin_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pin_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("boot_id", "revision", "welcome", "result")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    revision: int
    welcome: Welcome
    result: BatchResult
    def __init__(self, boot_id: _Optional[str] = ..., revision: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., result: _Optional[_Union[BatchResult, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("last_batch_number",)
    LAST_BATCH_NUMBER_FIELD_NUMBER: _ClassVar[int]
    last_batch_number: int
    def __init__(self, last_batch_number: _Optional[int] = ...) -> None: ...

class BatchResult(_message.Message):
    __slots__ = ("number", "answers", "error", "evictions", "usage")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    error: Error
    evictions: _containers.RepeatedCompositeFieldContainer[Eviction]
    usage: PoolUsage
    def __init__(self, number: _Optional[int] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., evictions: _Optional[_Iterable[_Union[Eviction, _Mapping]]] = ..., usage: _Optional[_Union[PoolUsage, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("admission", "grant", "refusal", "reset_cache", "ahead", "pinned", "pin_refusal")
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    RESET_CACHE_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    PIN_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    admission: Admission
    grant: Grant
    refusal: Refusal
    reset_cache: ResetCacheAnswer
    ahead: AheadGrant
    pinned: Pinned
    pin_refusal: PinRefusal
    def __init__(self, admission: _Optional[_Union[Admission, _Mapping]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., reset_cache: _Optional[_Union[ResetCacheAnswer, _Mapping]] = ..., ahead: _Optional[_Union[AheadGrant, _Mapping]] = ..., pinned: _Optional[_Union[Pinned, _Mapping]] = ..., pin_refusal: _Optional[_Union[PinRefusal, _Mapping]] = ...) -> None: ...

class BlockList(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("blocks", "dirty", "moves", "all_dirty")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    ALL_DIRTY_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[BlockList]
    dirty: _containers.RepeatedCompositeFieldContainer[BlockList]
    moves: Moves
    all_dirty: bool
    def __init__(self, blocks: _Optional[_Iterable[_Union[BlockList, _Mapping]]] = ..., dirty: _Optional[_Iterable[_Union[BlockList, _Mapping]]] = ..., moves: _Optional[_Union[Moves, _Mapping]] = ..., all_dirty: bool = ...) -> None: ...

class Moves(_message.Message):
    __slots__ = ("size_classes", "sources", "targets")
    SIZE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    size_classes: _containers.RepeatedScalarFieldContainer[int]
    sources: _containers.RepeatedScalarFieldContainer[int]
    targets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, size_classes: _Optional[_Iterable[int]] = ..., sources: _Optional[_Iterable[int]] = ..., targets: _Optional[_Iterable[int]] = ...) -> None: ...

class AheadGrant(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class Admission(_message.Message):
    __slots__ = ("hit_tokens", "longest_tokens", "hit_blocks", "grant")
    HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LONGEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HIT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    hit_tokens: int
    longest_tokens: int
    hit_blocks: _containers.RepeatedCompositeFieldContainer[BlockList]
    grant: Grant
    def __init__(self, hit_tokens: _Optional[int] = ..., longest_tokens: _Optional[int] = ..., hit_blocks: _Optional[_Iterable[_Union[BlockList, _Mapping]]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("cause", "hit_tokens", "longest_tokens", "wanted_block_counts", "available_block_counts")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LONGEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WANTED_BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_BLOCK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    cause: RefusalCause
    hit_tokens: int
    longest_tokens: int
    wanted_block_counts: _containers.RepeatedScalarFieldContainer[int]
    available_block_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cause: _Optional[_Union[RefusalCause, str]] = ..., hit_tokens: _Optional[int] = ..., longest_tokens: _Optional[int] = ..., wanted_block_counts: _Optional[_Iterable[int]] = ..., available_block_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class ResetCacheAnswer(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: bool
    def __init__(self, done: bool = ...) -> None: ...

class Pinned(_message.Message):
    __slots__ = ("token_count", "pinned_size_bytes", "cap_size_bytes")
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    PINNED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAP_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    token_count: int
    pinned_size_bytes: int
    cap_size_bytes: int
    def __init__(self, token_count: _Optional[int] = ..., pinned_size_bytes: _Optional[int] = ..., cap_size_bytes: _Optional[int] = ...) -> None: ...

class PinRefusal(_message.Message):
    __slots__ = ("cause", "wanted_size_bytes", "pinned_size_bytes", "cap_size_bytes")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    WANTED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PINNED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAP_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    cause: PinRefusalCause
    wanted_size_bytes: int
    pinned_size_bytes: int
    cap_size_bytes: int
    def __init__(self, cause: _Optional[_Union[PinRefusalCause, str]] = ..., wanted_size_bytes: _Optional[int] = ..., pinned_size_bytes: _Optional[int] = ..., cap_size_bytes: _Optional[int] = ...) -> None: ...

class Eviction(_message.Message):
    __slots__ = ("kind", "hashes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    kind: int
    hashes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, kind: _Optional[int] = ..., hashes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ClassUsage(_message.Message):
    __slots__ = ("free_block_count", "cached_block_count", "active_block_count", "granted_block_count", "null_block_count")
    FREE_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    CACHED_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    NULL_BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    free_block_count: int
    cached_block_count: int
    active_block_count: int
    granted_block_count: int
    null_block_count: int
    def __init__(self, free_block_count: _Optional[int] = ..., cached_block_count: _Optional[int] = ..., active_block_count: _Optional[int] = ..., granted_block_count: _Optional[int] = ..., null_block_count: _Optional[int] = ...) -> None: ...

class PoolUsage(_message.Message):
    __slots__ = ("size_classes", "unassigned_slab_count", "used_size_bytes", "usable_size_bytes")
    SIZE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    UNASSIGNED_SLAB_COUNT_FIELD_NUMBER: _ClassVar[int]
    USED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    USABLE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    size_classes: _containers.RepeatedCompositeFieldContainer[ClassUsage]
    unassigned_slab_count: int
    used_size_bytes: int
    usable_size_bytes: int
    def __init__(self, size_classes: _Optional[_Iterable[_Union[ClassUsage, _Mapping]]] = ..., unassigned_slab_count: _Optional[int] = ..., used_size_bytes: _Optional[int] = ..., usable_size_bytes: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...
