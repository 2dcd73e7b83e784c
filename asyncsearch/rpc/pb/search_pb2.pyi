from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_REACHED: _ClassVar[Outcome]
    OUTCOME_RETURNED: _ClassVar[Outcome]
    OUTCOME_STOPPED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_REACHED: Outcome
OUTCOME_RETURNED: Outcome
OUTCOME_STOPPED: Outcome
OUTCOME_FAILED: Outcome

class WorkerMessage(_message.Message):
    __slots__ = ("number", "ack", "hello", "heartbeat", "reported", "training_ended", "checkpoint_committed", "checkpoint_failed", "log_lines", "store_outage", "pack_measured", "gang_note", "rank_failed", "volume_measured", "question")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    TRAINING_ENDED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FAILED_FIELD_NUMBER: _ClassVar[int]
    LOG_LINES_FIELD_NUMBER: _ClassVar[int]
    STORE_OUTAGE_FIELD_NUMBER: _ClassVar[int]
    PACK_MEASURED_FIELD_NUMBER: _ClassVar[int]
    GANG_NOTE_FIELD_NUMBER: _ClassVar[int]
    RANK_FAILED_FIELD_NUMBER: _ClassVar[int]
    VOLUME_MEASURED_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    number: int
    ack: int
    hello: Hello
    heartbeat: Heartbeat
    reported: Reported
    training_ended: TrainingEnded
    checkpoint_committed: CheckpointCommitted
    checkpoint_failed: CheckpointFailed
    log_lines: LogLines
    store_outage: StoreOutage
    pack_measured: PackMeasured
    gang_note: GangNote
    rank_failed: RankFailed
    volume_measured: VolumeMeasured
    question: TrialQuestion
    def __init__(self, number: _Optional[int] = ..., ack: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., reported: _Optional[_Union[Reported, _Mapping]] = ..., training_ended: _Optional[_Union[TrainingEnded, _Mapping]] = ..., checkpoint_committed: _Optional[_Union[CheckpointCommitted, _Mapping]] = ..., checkpoint_failed: _Optional[_Union[CheckpointFailed, _Mapping]] = ..., log_lines: _Optional[_Union[LogLines, _Mapping]] = ..., store_outage: _Optional[_Union[StoreOutage, _Mapping]] = ..., pack_measured: _Optional[_Union[PackMeasured, _Mapping]] = ..., gang_note: _Optional[_Union[GangNote, _Mapping]] = ..., rank_failed: _Optional[_Union[RankFailed, _Mapping]] = ..., volume_measured: _Optional[_Union[VolumeMeasured, _Mapping]] = ..., question: _Optional[_Union[TrialQuestion, _Mapping]] = ...) -> None: ...

class DriverMessage(_message.Message):
    __slots__ = ("number", "ack", "welcome", "assign", "stop_training", "dismiss", "refused", "save_at", "cut_work", "store_tokens", "add_lane", "gang_note", "extend_work", "judged", "answer")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_FIELD_NUMBER: _ClassVar[int]
    STOP_TRAINING_FIELD_NUMBER: _ClassVar[int]
    DISMISS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SAVE_AT_FIELD_NUMBER: _ClassVar[int]
    CUT_WORK_FIELD_NUMBER: _ClassVar[int]
    STORE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ADD_LANE_FIELD_NUMBER: _ClassVar[int]
    GANG_NOTE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_WORK_FIELD_NUMBER: _ClassVar[int]
    JUDGED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    number: int
    ack: int
    welcome: Welcome
    assign: Assign
    stop_training: StopTraining
    dismiss: Dismiss
    refused: Refused
    save_at: SaveAt
    cut_work: CutWork
    store_tokens: StoreTokens
    add_lane: AddLane
    gang_note: GangNote
    extend_work: ExtendWork
    judged: Judged
    answer: TrialAnswer
    def __init__(self, number: _Optional[int] = ..., ack: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., assign: _Optional[_Union[Assign, _Mapping]] = ..., stop_training: _Optional[_Union[StopTraining, _Mapping]] = ..., dismiss: _Optional[_Union[Dismiss, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., save_at: _Optional[_Union[SaveAt, _Mapping]] = ..., cut_work: _Optional[_Union[CutWork, _Mapping]] = ..., store_tokens: _Optional[_Union[StoreTokens, _Mapping]] = ..., add_lane: _Optional[_Union[AddLane, _Mapping]] = ..., gang_note: _Optional[_Union[GangNote, _Mapping]] = ..., extend_work: _Optional[_Union[ExtendWork, _Mapping]] = ..., judged: _Optional[_Union[Judged, _Mapping]] = ..., answer: _Optional[_Union[TrialAnswer, _Mapping]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("number", "worker", "epoch")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    number: int
    worker: int
    epoch: int
    def __init__(self, number: _Optional[int] = ..., worker: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("node", "resource")
    NODE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    node: str
    resource: int
    def __init__(self, node: _Optional[str] = ..., resource: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol", "worker", "epoch", "agent", "host", "pid", "device")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    worker: int
    epoch: int
    agent: str
    host: str
    pid: int
    device: str
    def __init__(self, protocol: _Optional[int] = ..., worker: _Optional[int] = ..., epoch: _Optional[int] = ..., agent: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., device: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Metric(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class Spent(_message.Message):
    __slots__ = ("starting", "entering", "loading", "training", "saving", "verdict", "evaluating")
    STARTING_FIELD_NUMBER: _ClassVar[int]
    ENTERING_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    SAVING_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    EVALUATING_FIELD_NUMBER: _ClassVar[int]
    starting: int
    entering: int
    loading: int
    training: int
    saving: int
    verdict: int
    evaluating: int
    def __init__(self, starting: _Optional[int] = ..., entering: _Optional[int] = ..., loading: _Optional[int] = ..., training: _Optional[int] = ..., saving: _Optional[int] = ..., verdict: _Optional[int] = ..., evaluating: _Optional[int] = ...) -> None: ...

class Reported(_message.Message):
    __slots__ = ("lease", "lane", "resource", "metrics", "is_awaited", "spent")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    IS_AWAITED_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    resource: int
    metrics: _containers.RepeatedCompositeFieldContainer[Metric]
    is_awaited: bool
    spent: Spent
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., resource: _Optional[int] = ..., metrics: _Optional[_Iterable[_Union[Metric, _Mapping]]] = ..., is_awaited: bool = ..., spent: _Optional[_Union[Spent, _Mapping]] = ...) -> None: ...

class TrainingEnded(_message.Message):
    __slots__ = ("lease", "lane", "outcome", "resource", "checkpoint_resource", "error", "error_kind", "unreported", "spent")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    UNREPORTED_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    outcome: Outcome
    resource: int
    checkpoint_resource: int
    error: str
    error_kind: str
    unreported: _containers.RepeatedCompositeFieldContainer[Metric]
    spent: Spent
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., resource: _Optional[int] = ..., checkpoint_resource: _Optional[int] = ..., error: _Optional[str] = ..., error_kind: _Optional[str] = ..., unreported: _Optional[_Iterable[_Union[Metric, _Mapping]]] = ..., spent: _Optional[_Union[Spent, _Mapping]] = ...) -> None: ...

class PackSeconds(_message.Message):
    __slots__ = ("lanes", "seconds")
    LANES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    lanes: int
    seconds: float
    def __init__(self, lanes: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class PackMemory(_message.Message):
    __slots__ = ("one", "each", "limit", "limited_by")
    ONE_FIELD_NUMBER: _ClassVar[int]
    EACH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMITED_BY_FIELD_NUMBER: _ClassVar[int]
    one: int
    each: int
    limit: int
    limited_by: str
    def __init__(self, one: _Optional[int] = ..., each: _Optional[int] = ..., limit: _Optional[int] = ..., limited_by: _Optional[str] = ...) -> None: ...

class PackMeasured(_message.Message):
    __slots__ = ("lease", "seconds", "device", "refusal", "memory", "in_turn")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    IN_TURN_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    seconds: _containers.RepeatedCompositeFieldContainer[PackSeconds]
    device: str
    refusal: str
    memory: PackMemory
    in_turn: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., seconds: _Optional[_Iterable[_Union[PackSeconds, _Mapping]]] = ..., device: _Optional[str] = ..., refusal: _Optional[str] = ..., memory: _Optional[_Union[PackMemory, _Mapping]] = ..., in_turn: _Optional[str] = ...) -> None: ...

class VolumeMeasured(_message.Message):
    __slots__ = ("lease", "steps", "gradient_bytes", "device")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    steps: int
    gradient_bytes: int
    device: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., steps: _Optional[int] = ..., gradient_bytes: _Optional[int] = ..., device: _Optional[str] = ...) -> None: ...

class GangNote(_message.Message):
    __slots__ = ("lease", "rank", "key", "value")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    rank: int
    key: str
    value: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., rank: _Optional[int] = ..., key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class RankFailed(_message.Message):
    __slots__ = ("lease", "error", "error_kind", "has_stopped")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    HAS_STOPPED_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    error: str
    error_kind: str
    has_stopped: bool
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., error: _Optional[str] = ..., error_kind: _Optional[str] = ..., has_stopped: bool = ...) -> None: ...

class TrialQuestion(_message.Message):
    __slots__ = ("lease", "lane", "number", "content", "is_awaited", "has_more")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_AWAITED_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    number: int
    content: bytes
    is_awaited: bool
    has_more: bool
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., number: _Optional[int] = ..., content: _Optional[bytes] = ..., is_awaited: bool = ..., has_more: bool = ...) -> None: ...

class CheckpointCommitted(_message.Message):
    __slots__ = ("lease", "lane", "checkpoint", "size_bytes")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    checkpoint: Checkpoint
    size_bytes: int
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CheckpointFailed(_message.Message):
    __slots__ = ("lease", "lane", "checkpoint", "error", "error_kind")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    checkpoint: Checkpoint
    error: str
    error_kind: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., error: _Optional[str] = ..., error_kind: _Optional[str] = ...) -> None: ...

class StoreOutage(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("time_s", "is_stderr", "text")
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    IS_STDERR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    time_s: float
    is_stderr: bool
    text: str
    def __init__(self, time_s: _Optional[float] = ..., is_stderr: bool = ..., text: _Optional[str] = ...) -> None: ...

class LogLines(_message.Message):
    __slots__ = ("lease", "lane", "lines", "left_out")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    left_out: int
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol",)
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    def __init__(self, protocol: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("node", "params_json", "trials", "seed", "start", "stop", "max_resource", "save", "save_every")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARAMS_JSON_FIELD_NUMBER: _ClassVar[int]
    TRIALS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    MAX_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    SAVE_EVERY_FIELD_NUMBER: _ClassVar[int]
    node: str
    params_json: str
    trials: _containers.RepeatedScalarFieldContainer[int]
    seed: int
    start: int
    stop: int
    max_resource: int
    save: bool
    save_every: int
    def __init__(self, node: _Optional[str] = ..., params_json: _Optional[str] = ..., trials: _Optional[_Iterable[int]] = ..., seed: _Optional[int] = ..., start: _Optional[int] = ..., stop: _Optional[int] = ..., max_resource: _Optional[int] = ..., save: bool = ..., save_every: _Optional[int] = ...) -> None: ...

class Lane(_message.Message):
    __slots__ = ("stages", "load", "judged")
    STAGES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    JUDGED_FIELD_NUMBER: _ClassVar[int]
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    load: Checkpoint
    judged: int
    def __init__(self, stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ..., load: _Optional[_Union[Checkpoint, _Mapping]] = ..., judged: _Optional[int] = ...) -> None: ...

class GangMember(_message.Message):
    __slots__ = ("worker", "epoch")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    worker: int
    epoch: int
    def __init__(self, worker: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Assign(_message.Message):
    __slots__ = ("lease", "lanes", "measured", "is_open", "gang")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    IS_OPEN_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lanes: _containers.RepeatedCompositeFieldContainer[Lane]
    measured: _containers.RepeatedScalarFieldContainer[int]
    is_open: bool
    gang: _containers.RepeatedCompositeFieldContainer[GangMember]
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lanes: _Optional[_Iterable[_Union[Lane, _Mapping]]] = ..., measured: _Optional[_Iterable[int]] = ..., is_open: bool = ..., gang: _Optional[_Iterable[_Union[GangMember, _Mapping]]] = ...) -> None: ...

class AddLane(_message.Message):
    __slots__ = ("lease", "lane", "added")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    added: Lane
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., added: _Optional[_Union[Lane, _Mapping]] = ...) -> None: ...

class StopTraining(_message.Message):
    __slots__ = ("lease", "lane", "reason")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    reason: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class SaveAt(_message.Message):
    __slots__ = ("lease", "lane", "node", "resource")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    node: str
    resource: int
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., node: _Optional[str] = ..., resource: _Optional[int] = ...) -> None: ...

class CutWork(_message.Message):
    __slots__ = ("lease", "lane", "stop")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    stop: int
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., stop: _Optional[int] = ...) -> None: ...

class ExtendWork(_message.Message):
    __slots__ = ("lease", "lane", "stages", "save")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    save: bool
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ..., save: bool = ...) -> None: ...

class Judged(_message.Message):
    __slots__ = ("lease", "lane", "resource", "next")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    resource: int
    next: int
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., resource: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class TrialAnswer(_message.Message):
    __slots__ = ("lease", "lane", "number", "content", "has_more")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    lane: int
    number: int
    content: bytes
    has_more: bool
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., lane: _Optional[int] = ..., number: _Optional[int] = ..., content: _Optional[bytes] = ..., has_more: bool = ...) -> None: ...

class Dismiss(_message.Message):
    __slots__ = ("worker", "epoch", "reason", "is_unheard")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_UNHEARD_FIELD_NUMBER: _ClassVar[int]
    worker: int
    epoch: int
    reason: str
    is_unheard: bool
    def __init__(self, worker: _Optional[int] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ..., is_unheard: bool = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("lease", "reason")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    reason: str
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class StoreTokens(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: bytes
    def __init__(self, tokens: _Optional[bytes] = ...) -> None: ...
