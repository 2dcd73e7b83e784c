"""The trainable, which the user writes, and the contract of the trial that it is given."""

from asyncsearch.trainable.context import (
    Evaluate,
    LoadFunction,
    ReportError,
    SaveFunction,
    TrialContext,
    TrialInterrupted,
    TrialPaused,
    TrialStopped,
    Update,
)
from asyncsearch.trainable.trainer import (
    PackOutcome,
    Pickled,
    Trainable,
    Trainer,
    TrainFunction,
    WithFunctions,
    as_function,
    begin_trainer,
    is_evaluated,
    trainer_class_of,
)

__all__ = [
    "Evaluate",
    "LoadFunction",
    "PackOutcome",
    "Pickled",
    "ReportError",
    "SaveFunction",
    "TrainFunction",
    "Trainable",
    "Trainer",
    "TrialContext",
    "TrialInterrupted",
    "TrialPaused",
    "TrialStopped",
    "Update",
    "WithFunctions",
    "as_function",
    "begin_trainer",
    "is_evaluated",
    "trainer_class_of",
]
