"""The request of a program for a search: ``TuneConfig``, ``RunConfig`` and the arguments of ``tune.run`` together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import cloudpickle

from asyncsearch.arguments import count_of, integer_of, positive, seconds_of
from asyncsearch.errors import UsageError
from asyncsearch.ray.scheduling import require_mode


@dataclass
class CheckpointConfig:
    """Which checkpoints are kept: the ``num_to_keep`` best by ``checkpoint_score_attribute``, else the newest."""

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int | None = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        if self.num_to_keep is not None:
            positive("num_to_keep", self.num_to_keep, 1)
        if self.checkpoint_frequency is not None:
            count_of("checkpoint_frequency", self.checkpoint_frequency)
        require_mode(self.checkpoint_score_order, "CheckpointConfig")


@dataclass
class FailureConfig:
    """The answer to a failed trial: it begins again up to ``max_failures`` times, -1: without end."""

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        integer_of("max_failures", self.max_failures)


@dataclass
class SyncConfig:
    """The place of files; here they go to the study's store, whatever it says."""

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    upload_dir: str | None = None
    syncer: Any = None


@dataclass
class RunConfig:
    """The name and the place of a search, and how its trials end."""

    name: str | None = None
    storage_path: Any = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    sync_config: SyncConfig | None = None
    verbose: int | None = None
    stop: Any = None
    callbacks: Sequence[Any] | None = None
    progress_reporter: Any = None
    log_to_file: Any = False
    local_dir: Any = None
    worker_runtime_env: Any = None


@dataclass
class TuneConfig:
    """The space of a search, its number of trials, and its metric."""

    mode: str | None = None
    metric: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: Any = None
    reuse_actors: bool | None = None
    trial_name_creator: Callable[[Any], str] | None = None
    trial_dirname_creator: Callable[[Any], str] | None = None
    chdir_to_trial_dir: bool = True


@dataclass
class ScalingConfig:
    """The resources of a trial, as of a program that trains by ``ray.train`` inside one."""

    trainer_resources: Mapping[str, float] | None = None
    num_workers: int | None = None
    use_gpu: bool = False
    resources_per_worker: Mapping[str, float] | None = None
    placement_strategy: str = "PACK"

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum of all workers: a trial is one process."""
        worker = {"CPU": 1.0} if self.resources_per_worker is None else dict(self.resources_per_worker)
        if self.use_gpu:
            worker.setdefault("GPU", 1.0)
        found = dict(self.trainer_resources or {})
        for name, value in worker.items():
            found[name] = found.get(name, 0) + value * (self.num_workers or 1)
        return found


class ResourceBundles:
    """The resources of a trial as a list; in programs it is ``PlacementGroupFactory``. A trial here is one process."""

    def __init__(self, bundles: Sequence[Mapping[str, float]], *_given: Any, **_named: Any) -> None:
        self.bundles = [dict(one) for one in bundles]

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum of all bundles."""
        found: dict[str, float] = {}
        for one in self.bundles:
            for name, value in one.items():
                found[name] = found.get(name, 0) + value
        return found


_NAMES = "names nothing here: trials are trial-0, trial-1, ... in tables and folders."
_REPLACED = {
    "log_to_file": "has no effect here: `asyncsearch logs` shows the lines of each trial, in any case.",
    "worker_runtime_env": "has no effect here: workers have the driver's modules, or what their image has installed.",
}
"""Arguments of ``RunConfig`` that something else does, and what; the table takes the place of ``progress_reporter``."""


_RESUMES = ("AUTO", "LOCAL", "REMOTE", "PROMPT")


@dataclass(kw_only=True)
class SearchRequest:
    """Everything of one search, whichever way it was asked for."""

    tune: TuneConfig
    run: RunConfig
    param_space: Any = None
    resources: Any = None
    resume: bool | str = False
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tune, run = self.tune, self.run
        require_mode(tune.mode, "TuneConfig")
        if integer_of("num_samples", tune.num_samples) < -1 or tune.num_samples == 0:
            raise UsageError(
                f"num_samples={tune.num_samples!r} must be a whole number from 1, or -1: until time_budget_s."
            )
        if tune.num_samples == -1 and tune.time_budget_s is None:
            raise UsageError("num_samples=-1 has no end: give time_budget_s= beside it, or a number.")
        if tune.time_budget_s is not None:
            seconds_of("time_budget_s", tune.time_budget_s)
        if tune.max_concurrent_trials is not None:  # 0 is no limit, as in Ray
            count_of("max_concurrent_trials", tune.max_concurrent_trials)
        if run.storage_filesystem is not None:
            raise UsageError(
                "storage_filesystem= is not known here: write its URL in storage_path=, as hdfs:///results or s3://bucket."
            )
        if isinstance(run.sync_config, SyncConfig) and (run.sync_config.upload_dir or run.sync_config.syncer):
            raise UsageError("SyncConfig(upload_dir=, syncer=): write the URL in storage_path=, as hdfs:///results.")
        if self.resume not in (True, False, None, *_RESUMES):
            raise UsageError(
                f"resume={self.resume!r}: failed trials are not begun again, and those that had begun go on; write "
                "resume=True, and max_failures= where failed trials are to begin again within the search."
            )
        for which in ("trial_name_creator", "trial_dirname_creator"):
            if getattr(tune, which) is not None and not callable(getattr(tune, which)):
                raise UsageError(f"{which}={getattr(tune, which)!r} is no function.")
        require_callbacks(run.callbacks)

    @property
    def without_effect(self) -> list[str]:
        """Sentences on arguments that the program gives, and that do nothing here."""
        given = {name: getattr(self.run, name) for name in _REPLACED} | {
            name: getattr(self.tune, name) for name in ("trial_name_creator", "trial_dirname_creator")
        }
        sentences = [f"{name}= {_REPLACED.get(name, _NAMES)}" for name, value in given.items() if value]
        if self.tune.reuse_actors:
            sentences.append("reuse_actors= has no effect here: each trial is a new object, in a kept process.")
        if isinstance(self.run.sync_config, SyncConfig) and self.run.sync_config != SyncConfig():
            sentences.append(
                "SyncConfig(...) has no effect here: the study's store has each file as soon as it is reported."
            )
        return sentences

    def packed(self, resources: Any) -> bytes:
        """Return a pickle for ``Tuner.restore``, without the space, which the study has; empty if there can be none."""
        try:
            return bytes(cloudpickle.dumps(replace(self, param_space=None, resources=resources, resume=False)))
        except Exception:  # whatever an object of the program raises: then its program alone goes on
            return b""

    @classmethod
    def unpacked(cls, data: bytes, param_space: Any) -> SearchRequest | None:
        """Return the request that ``packed`` has kept. None if there is none, or cannot be read in this program."""
        try:
            return replace(cloudpickle.loads(data), param_space=param_space) if data else None
        except Exception:  # a class of the program's has gone, or raises anything
            return None

    @property
    def time_budget_s(self) -> float | None:
        """Seconds after which the search ends."""
        budget = self.tune.time_budget_s
        return None if budget is None else seconds_of("time_budget_s", budget)

    @property
    def checkpoints(self) -> CheckpointConfig:
        """Which checkpoints are kept; an attribute "min-loss" is the lowest loss."""
        config = self.run.checkpoint_config or CheckpointConfig()
        attribute, order = config.checkpoint_score_attribute, config.checkpoint_score_order or "max"
        if attribute and attribute.startswith(("min-", "max-")):
            order, attribute = attribute[:3], attribute[4:]
        made = CheckpointConfig(config.num_to_keep, attribute, order)
        made.checkpoint_frequency = config.checkpoint_frequency or 0
        made.checkpoint_at_end = bool(config.checkpoint_at_end)
        return made

    @property
    def max_failures(self) -> int:
        """How often a failed trial begins again."""
        most = (self.run.failure_config or FailureConfig()).max_failures
        return 1_000_000 if most < 0 else most


def require_callbacks(callbacks: Sequence[Any] | None) -> None:
    """Refuse callbacks that are no objects of ``tune.Callback``."""
    for one in callbacks or ():
        if isinstance(one, type):
            raise UsageError(f"callbacks=[{one.__name__}] is a class: write {one.__name__}().")


_RUN = frozenset(one.name for one in fields(RunConfig))
_TUNE = frozenset(one.name for one in fields(TuneConfig))
_WITHOUT_EFFECT = {
    "queue_trials", "server_port", "with_server", "ray_auto_init", "global_checkpoint_period", "export_formats",
    "trial_executor",
    "with_ray_client", "sync_to_driver", "sync_to_cloud", "sync_on_checkpoint", "loggers", "_remote", "upload_dir",
}  # fmt: skip
"""Arguments of former ages that say how Ray runs; a warning names them."""


def request_of_run(named: Mapping[str, Any]) -> tuple[SearchRequest, list[str]]:
    """Return the request that the arguments of ``tune.run`` make, and sentences on those without an effect.

    Raises:
        UsageError: an argument is not known.
    """
    given = dict(named)
    checkpoint = given.pop("checkpoint_config", None) or CheckpointConfig()
    checkpoint = CheckpointConfig(
        given.pop("keep_checkpoints_num", None) or checkpoint.num_to_keep,
        given.pop("checkpoint_score_attr", None) or checkpoint.checkpoint_score_attribute,
        checkpoint.checkpoint_score_order,
        given.pop("checkpoint_freq", 0) or checkpoint.checkpoint_frequency,
        given.pop("checkpoint_at_end", False) or checkpoint.checkpoint_at_end,
    )
    failures = FailureConfig(given.pop("max_failures", 0), given.pop("fail_fast", False))
    param_space, resources = given.pop("config", None), given.pop("resources_per_trial", None)
    resume = given.pop("resume", False)
    if given.pop("resume_config", None) is not None:
        raise UsageError("tune.run(resume_config=...) is not known here: trials that had begun go on, resume=True.")
    if given.pop("restore", None) is not None:
        raise UsageError("tune.run(restore=...) is not known here: let the trainable load the path from its config.")
    ignored = [name for name in list(given) if name in _WITHOUT_EFFECT and given.pop(name) is not None]
    given = {name: value for name, value in given.items() if name not in _WITHOUT_EFFECT}
    unknown = [name for name in given if name not in _RUN | _TUNE]
    if unknown:
        raise UsageError(f"tune.run() has no argument {unknown[0]!r}; it has {', '.join(sorted(_RUN | _TUNE))}.")
    tune = TuneConfig(**{name: value for name, value in given.items() if name in _TUNE})
    run = RunConfig(**{name: value for name, value in given.items() if name in _RUN})
    run.checkpoint_config, run.failure_config = checkpoint, failures
    request = SearchRequest(tune=tune, run=run, param_space=param_space, resources=resources, resume=resume)
    return request, [f"tune.run({name}=...) says how Ray runs, and has no effect here." for name in ignored]
