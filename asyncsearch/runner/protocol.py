"""The messages between agent and runner.

Pseudocode of the conversation::

    agent:  Load   Train(stages) [Loadable]           [Folder]       [SaveAt]  [CutWork]  [StopTraining]   Train ...
    runner:   RunnerReady     LaneReported ... FolderWanted ...  ... Saved ...               Ended [ImportedModules]

Packed work, and such that others may join, is sent by ``TrainPack`` in place of ``Train``, and the other messages name
the lane. A ``Join`` adds a lane when the others have done their unit.

The driver's actions are sent unchanged. Rule: each side reads in the order in which the other side wrote, so messages
need no number. A ``Folder`` or an action that crosses an ``Ended`` arrives while the runner is idle, and is dropped.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch.actions import CutWork, ExtendWork, SaveAt, StopTraining
from asyncsearch.errors import StoreError
from asyncsearch.events import Outcome, PackMeasured, PackMemory, PackSeconds, Spent
from asyncsearch.ids import Lease
from asyncsearch.runner.trial_folder import FolderPlace
from asyncsearch.work import Stage

Amendment = SaveAt | CutWork | ExtendWork
"""Changes the work of a lane that is assigned already."""


class _Message(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of all messages."""


class Load(_Message, frozen=True, tag="load"):
    """First message: the data that all trials share."""

    bundle: bytes
    """The pickled trainable, from the launcher's closure, never from the network."""
    metric: str
    """Name of the study's metric."""
    marker: bytes
    """Random bytes that the runner writes into its outputs where a training ends."""
    untrusted: str = ""
    """Folder of the checkpoints, if nothing may be unpickled from it; else empty."""
    environment: dict[str, str] = {}
    """Variables that a runner adds to its environment, if it was not started with them."""
    names_imports: bool = False
    """Whether ``ImportedModules`` is wanted."""
    is_preloaded: bool = False
    """Whether the runner was forked with the modules of an earlier one, which are frozen."""
    seal_key: bytes = b""
    """Seals questions to the driver; see ``seal``."""

    def __repr__(self) -> str:
        return f"Load(metric {self.metric!r}, bundle and key hidden)"


class GangSeat(msgspec.Struct, frozen=True):
    """The place of this process among those that train a trial together."""

    rank: int
    """From 0."""
    size: int
    """Number of ranks."""
    host: str
    """Address at which the other ranks reach this machine."""


class Train(_Message, frozen=True, tag="train"):
    """Train a batch of stages."""

    stages: tuple[Stage, ...]
    load: str | None = None
    """Path of the checkpoint to start from."""
    amendments: tuple[Amendment, ...] = ()
    """Amendments that arrived before its start."""
    lane: int = 0
    """Number of the lane; every message about it carries the number."""
    gang: GangSeat | None = None
    """None: it trains alone."""
    notes: tuple[Note, ...] = ()
    """Notes of other ranks that arrived before its start."""
    place: FolderPlace = FolderPlace()
    """Where to make the folder of the trial, if it asks for it."""
    judged: int | None = None
    """The first resource at whose report it waits for what is decided, besides a pause at its end. None if none."""
    copies: bool = False
    """Whether its last state may be copied, and written while the next lane trains."""
    awaits_load: bool = False
    """Whether the checkpoint to start from is fetched and compared while the trial is set up; ``Loadable`` follows."""


class TrainPack(_Message, frozen=True, tag="train_pack"):
    """Train several lanes together; ``Ended`` follows for each."""

    lanes: tuple[Train, ...]
    measured: tuple[int, ...] = ()
    """As in ``Work``."""


class Join(_Message, frozen=True, tag="join"):
    """Train one more lane together with those of the present ``TrainPack``, or alone if they have all ended."""

    lane: Train


class Loadable(_Message, frozen=True, tag="loadable"):
    """The checkpoint to start from is here, and is as it was committed; or it cannot be had."""

    path: str
    error: str = ""
    """Why it cannot be had. Empty if it is here."""
    lane: int = 0


class LaneAnswer(_Message, frozen=True, tag="lane_answer"):
    """Answer to a ``LaneQuestion``."""

    number: int
    """That of the question."""
    content: bytes
    has_more: bool = False
    """Whether the rest of the content follows in another message of this number."""
    lane: int = 0


class Folder(_Message, frozen=True, tag="folder"):
    """Answer to ``FolderWanted``."""

    path: str
    error: str = ""
    """Why there is no folder. Empty if there is one."""
    lane: int = 0

    @property
    def checkpoint(self) -> Path:
        """Path at which the runner must write the checkpoint.

        Raises:
            StoreError: there is no folder.
        """
        if self.error:
            raise StoreError(self.error)
        return Path(self.path) / "checkpoint"


class RunnerReady(_Message, frozen=True, tag="ready"):
    """The trainable is loaded, or failed to load, which every training then reports."""


class ImportedModules(_Message, frozen=True, tag="imported"):
    """The modules of installed packages that the first training has imported; sent once, after it."""

    modules: tuple[str, ...]
    """In the order in which their imports began."""
    environment: dict[str, str]
    """Variables that were set since ``Load``."""


class Answered(_Message, frozen=True, tag="answered"):
    """All decisions on a trial by its awaited report were told before this."""

    resource: int
    lane: int = 0
    next: int | None = None
    """Where it is judged next, besides a pause at its end. None if it is not."""


class LaneReported(_Message, frozen=True, tag="reported"):
    """The trial reported metrics; NaN and infinities are sent unchanged."""

    resource: int
    metrics: dict[str, float]
    lane: int = 0
    is_awaited: bool = False
    """Whether the trial waits for what is decided of it here."""
    spent: Spent | UnsetType = UNSET
    """What this process did so far since its work began, if it is time to tell it."""


class LaneQuestion(_Message, frozen=True, tag="lane_question"):
    """The user's function asks the one who answers in the driver, or tells it something; only these two read it."""

    number: int
    """It grows by one from question to question of a lane; the first one has that behind ``UNASKED``."""
    content: bytes
    is_awaited: bool = True
    """Whether a ``LaneAnswer`` follows."""
    has_more: bool = False
    """Whether the rest of the content follows in another message of this number."""
    lane: int = 0


UNASKED = 1
"""The number of what the driver may tell a lane at its beginning, as if it had been asked."""
PART_BYTES = 2**20
"""Most bytes of a question or an answer in one message."""


def parts_of(content: bytes) -> list[tuple[bytes, bool]]:
    """Return the parts in which a content travels, each with whether another one follows."""
    starts = range(0, max(len(content), 1), PART_BYTES)
    return [(content[start : start + PART_BYTES], start + PART_BYTES < len(content)) for start in starts]


class FolderWanted(_Message, frozen=True, tag="folder_wanted"):
    """A checkpoint is due, and the runner needs a folder for it."""

    stage: int
    """Index into the stages of the training."""
    resource: int
    is_needed: bool = False
    """Whether the training cannot go on without the checkpoint, so that the answer waits until there is a folder."""
    failed: str = ""
    """Why the disk of the folder before this one could not take the checkpoint. Empty if there was none."""
    lane: int = 0


class ShardPlaceWanted(_Message, frozen=True, tag="shard_place_wanted"):
    """Rank 0 has written its shard, and asks where the other ranks add theirs; ``ShardAnswer`` follows."""

    stage: int
    resource: int
    lane: int = 0


class ShardWritten(_Message, frozen=True, tag="shard_written"):
    """A rank above 0 has written its shard in the folder, which is to be added; ``ShardAnswer`` follows."""

    stage: int
    resource: int
    place: str
    """Where to add it."""
    lane: int = 0


class ShardAnswer(_Message, frozen=True, tag="shard_answer"):
    """Answer to ``ShardPlaceWanted``, the place, and to ``ShardWritten``, once the shard is durable: its files."""

    value: str
    """The place, or the files in the agent's own words, which another agent reads."""
    error: str = ""
    """Why there is no value. Empty if there is one."""
    is_store: bool = False
    """Whether the store could not be used, rather than the files of the rank."""
    lane: int = 0


class WrittenShards(msgspec.Struct, frozen=True):
    """The shards of the ranks above 0, which are durable."""

    strategy: str
    """The strategy that divided the state."""
    files: tuple[str, ...]
    """Those of each rank, as ``ShardAnswer`` has them."""


class Saved(_Message, frozen=True, tag="saved"):
    """The checkpoint is written in the folder."""

    stage: int
    resource: int
    is_last: bool = False
    """Whether the training ends here; ``Ended`` follows."""
    lane: int = 0
    shards: WrittenShards | None = None
    """None: all of it is in the folder."""


class SaveFailed(_Message, frozen=True, tag="save_failed"):
    """There is no checkpoint, and training continues."""

    stage: int
    resource: int
    error: str
    """Error with the traceback of the user's ``save``."""
    error_kind: str = ""
    """``store`` if there was no place for it. Empty if it is the trial's own doing."""
    lane: int = 0


class Unwritten(msgspec.Struct, frozen=True):
    """A checkpoint that is a copy in memory when its training ends, and is written after that."""

    stage: int
    resource: int
    size_bytes: int


class CopyWaits(_Message, frozen=True, tag="copy_waits"):
    """The disk cannot take the copy of the training that ended last; it is tried again."""

    error: str


class CopyWritten(_Message, frozen=True, tag="copy_written"):
    """The copy of the training that ended last is written in its folder, or could not be."""

    error: str = ""
    """Why there is no checkpoint. Empty if there is one."""


class Note(_Message, frozen=True, tag="note"):
    """A value that one rank of a gang tells the others, in both directions."""

    rank: int
    """Of the sender."""
    key: str
    value: str


class PackFindings(_Message, frozen=True, tag="pack_findings"):
    """How fast the lanes of a pack train together, or why they do not; see ``PackMeasured``."""

    seconds: tuple[PackSeconds, ...] = ()
    device: str = ""
    refusal: str = ""
    memory: PackMemory | None = None
    sequential: str = ""

    def under(self, lease: Lease) -> PackMeasured:
        """Return the event of the lease whose pack it is."""
        return PackMeasured(lease, self.seconds, self.device, self.refusal, self.memory, self.sequential)


class UnitVolume(_Message, frozen=True, tag="unit_volume"):
    """The volume that the workers of a trial send each other in a unit; see ``VolumeMeasured``."""

    steps: int
    gradient_bytes: int
    device: str
    lane: int = 0


class Ended(_Message, frozen=True, tag="ended"):
    """The training of a lane is over."""

    outcome: Outcome
    resource: int
    """Units of training done."""
    error: str = ""
    """As in ``TrainingEnded``."""
    error_kind: str = ""
    lane: int = 0
    unreported: dict[str, float] = {}
    """Metrics that the function returned beside its reports, and that are not recorded."""
    is_last: bool = True
    """Whether the runner trains no other lane, so that both outputs hold the marker."""
    unwritten: Unwritten | None = None
    """Its last checkpoint, if that is still to be written; ``CopyWritten`` follows. One at a time is."""
    spent: Spent = Spent()
    """What this process did since its work began."""


ToRunner = (
    Load
    | Train
    | TrainPack
    | Join
    | Loadable
    | LaneAnswer
    | Folder
    | ShardAnswer
    | Amendment
    | Answered
    | StopTraining
    | Note
)
Saving = FolderWanted | ShardPlaceWanted | ShardWritten | Saved | SaveFailed
"""Messages on a checkpoint that is due."""
Copying = CopyWaits | CopyWritten
"""Messages on the copy of a training that has ended."""
FromRunner = (
    RunnerReady
    | LaneReported
    | LaneQuestion
    | Saving
    | Copying
    | PackFindings
    | Note
    | UnitVolume
    | Ended
    | ImportedModules
)
