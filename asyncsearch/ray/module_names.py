"""Which modules of Ray there are, and where in this package their names are: module -> name -> home.

Modules of several ages of Ray have the same names; what a program of today imports from ``ray.tune`` is also where
programs of former years look for it.
"""

from __future__ import annotations

from collections.abc import Iterable

VERSION = "2.60.0"
"""The interface of today; programs compare it."""


def _of(home: str, names: Iterable[str] | str) -> dict[str, str]:
    given = names.split() if isinstance(names, str) else names
    return {name.partition("=")[0]: f"{home}.{name.partition('=')[2] or name}" for name in given}


_SPACES = _of(
    "space.spaces",
    "uniform quniform loguniform qloguniform randint qrandint lograndint qlograndint randn qrandn choice sample_from "
    "grid_search",
)
_DOMAINS = _of(
    "space.spaces",
    "Domain=TuneDomain Float=RangeDomain Integer=RangeDomain Categorical=ChoiceDomain Function=DrawnByFunction",
)
_SESSION = _of("trial.present_trial", "report get_checkpoint get_context")
_ASKED = _of("trial.present_trial", [
    f"{name}"
    for name in (
        "get_trial_id", "get_trial_name", "get_trial_dir", "get_experiment_name", "get_trial_resources",
        "get_world_size", "get_world_rank", "get_local_rank", "get_node_rank", "get_local_world_size",
    )
])  # fmt: skip
_CONFIGS = _of("requests", "RunConfig CheckpointConfig FailureConfig SyncConfig ScalingConfig")
_CHECKPOINT = _of("trial.checkpoints", "Checkpoint=DirCheckpoint")
_SCHEDULERS = _of(
    "scheduling",
    "ASHAScheduler=AsyncHyperBandScheduler AsyncHyperBandScheduler HyperBandScheduler "
    "HyperBandForBOHB=HyperBandScheduler MedianStoppingRule FIFOScheduler TrialScheduler=TuneScheduler "
    "create_scheduler",
)
_PBT = _of("population", "PopulationBasedTraining")
_SCHEDULERS |= _PBT
_STOPPERS = _of(
    "stoppers",
    "Stopper NoopStopper FunctionStopper MaximumIterationStopper TimeoutStopper TrialPlateauStopper "
    "ExperimentPlateauStopper CombinedStopper",
)
_CALLBACKS = _of("callbacks.driver", "Callback=DriverCallback")
_REPORTERS = _of(
    "callbacks.driver",
    "CLIReporter=TableReporter JupyterNotebookReporter=TableReporter ProgressReporter=TableReporter",
)
_LOGGERS = _of(
    "callbacks.driver",
    "LoggerCallback Logger=LoggerCallback JsonLoggerCallback=StoredByStudy CSVLoggerCallback=StoredByStudy "
    "TBXLoggerCallback=StoredByStudy TBXLogger=StoredByStudy CSVLogger=StoredByStudy JsonLogger=StoredByStudy "
    "UnifiedLogger=StoredByStudy",
)
_SEARCHERS = _of(
    "space.search_algorithms",
    "BasicVariantGenerator ConcurrencyLimiter Searcher=SearchAlgorithm SearchAlgorithm create_searcher",
)
_OPTUNA = _of("space.search_algorithms", "OptunaSearch=SamplerAlgorithm")
_RESULTS = _of("results", "ResultGrid=SearchResults ExperimentAnalysis=SearchAnalysis Analysis=SearchAnalysis")
_RESULT = _of("results", "Result=TrialResult")
_RUNTIME = _of(
    "runtime",
    "init shutdown is_initialized put get remote cluster_resources available_resources nodes get_gpu_ids ObjectRef",
)
_TRAINABLE = _of("trial.trainables", "Trainable=StepTrainable with_parameters with_resources")
_TUNER = _of("tuner", "Tuner run run_experiments") | _of("requests", "TuneConfig") | _of("recorded_trials", "TuneError")
_REGISTRY = _of("registry", "register_trainable register_env")
_SPARK = _of("runtime", "setup_ray_cluster shutdown_ray_cluster")

_TUNE = (
    _SPACES | _SESSION | _CONFIGS | _CHECKPOINT | _RESULTS | _RESULT | _TRAINABLE | _TUNER | _REGISTRY
    | _REPORTERS
    | _CALLBACKS
    | _of("trial.trainables", "checkpoint_dir")
    | _of("stoppers", "Stopper")
    | _of("trial.present_trial", "is_session_enabled")
    | _of("scheduling", "create_scheduler")
    | _of("space.search_algorithms", "create_searcher")
    | {name: _ASKED[name] for name in ("get_trial_id", "get_trial_name", "get_trial_dir", "get_trial_resources")}
)  # fmt: skip
_AIR_SESSION = _SESSION | _ASKED
_TRAIN = _SESSION | _CONFIGS | _CHECKPOINT | _RESULT

_MLFLOW = _of("callbacks.trackers", "MLflowLoggerCallback setup_mlflow")
_WANDB = _of("callbacks.trackers", "WandbLoggerCallback setup_wandb")
_GROUPS = _of("requests", "PlacementGroupFactory=ResourceBundles")
_TUNE |= _GROUPS


def _reports(home: str, library: str) -> dict[str, str]:
    return _of(home, [f"{name}={library}_{name}" for name in ("TuneReportCallback", "TuneReportCheckpointCallback")])


MODULES: dict[str, dict[str, str]] = {
    "ray": _RUNTIME,
    "ray.tune": _TUNE,
    "ray.tune.tune": _TUNER,
    "ray.tune.tuner": _TUNER,
    "ray.tune.tune_config": _of("requests", "TuneConfig"),
    "ray.tune.result_grid": _RESULTS,
    "ray.tune.analysis": _RESULTS,
    "ray.tune.analysis.experiment_analysis": _RESULTS,
    "ray.tune.error": _of("recorded_trials", "TuneError"),
    "ray.tune.registry": _REGISTRY,
    "ray.tune.trainable": _TRAINABLE,
    "ray.tune.trainable.util": _TRAINABLE,
    "ray.tune.utils": _TRAINABLE,
    "ray.tune.utils.trainable": _TRAINABLE,
    "ray.tune.experiment": {},
    "ray.tune.experiment.trial": _of("recorded_trials", "Trial=RecordedTrial"),
    "ray.tune.trial": _of("recorded_trials", "Trial=RecordedTrial"),
    "ray.tune.schedulers": _SCHEDULERS,
    "ray.tune.schedulers.async_hyperband": _SCHEDULERS,
    "ray.tune.schedulers.hyperband": _SCHEDULERS,
    "ray.tune.schedulers.hb_bohb": _SCHEDULERS,
    "ray.tune.schedulers.median_stopping_rule": _SCHEDULERS,
    "ray.tune.schedulers.trial_scheduler": _SCHEDULERS,
    "ray.tune.schedulers.pbt": _PBT,
    "ray.tune.stopper": _STOPPERS,
    "ray.tune.callback": _CALLBACKS,
    "ray.tune.progress_reporter": _REPORTERS,
    "ray.tune.logger": _LOGGERS,
    "ray.tune.search": _SEARCHERS | _SPACES,
    "ray.tune.search.sample": _SPACES | _DOMAINS,
    "ray.tune.sample": _SPACES | _DOMAINS,
    "ray.tune.search.basic_variant": _SEARCHERS,
    "ray.tune.search.concurrency_limiter": _SEARCHERS,
    "ray.tune.search.searcher": _SEARCHERS,
    "ray.tune.search.variant_generator": _SPACES,
    "ray.tune.suggest": _SEARCHERS,
    "ray.tune.suggest.basic_variant": _SEARCHERS,
    "ray.tune.suggest.suggestion": _SEARCHERS,
    "ray.tune.session": _AIR_SESSION,
    "ray.tune.track": _of("trial.present_trial", "log=report"),
    "ray.tune.context": _of("trial.present_trial", "get_context TuneContext=TrialInfo"),
    "ray.air": _CONFIGS | _CHECKPOINT | _RESULT,
    "ray.air.session": _AIR_SESSION,
    "ray.air.checkpoint": _CHECKPOINT,
    "ray.air.config": _CONFIGS,
    "ray.air.result": _RESULT,
    "ray.train": _TRAIN,
    "ray.air.integrations": {},
    "ray.air.integrations.keras": _of(
        "callbacks.networks",
        "ReportCheckpointCallback=keras_ReportCheckpointCallback Callback=keras_ReportCheckpointCallback",
    ),
    "ray.air.integrations.mlflow": _MLFLOW,
    "ray.air.integrations.wandb": _WANDB,
    "ray.tune.integration": {},
    "ray.tune.integration.keras": _reports("callbacks.networks", "keras"),
    "ray.tune.integration.pytorch_lightning": _reports("callbacks.networks", "lightning"),
    "ray.tune.integration.xgboost": _reports("callbacks.boosting", "xgboost"),
    "ray.tune.integration.lightgbm": _reports("callbacks.boosting", "lightgbm"),
    "ray.tune.integration.mlflow": _MLFLOW,
    "ray.tune.integration.wandb": _WANDB,
    "ray.tune.logger.mlflow": _MLFLOW,
    "ray.train.lightning": _of("callbacks.networks", "RayTrainReportCallback=lightning_RayTrainReportCallback"),
    "ray.train.xgboost": _of("callbacks.boosting", "RayTrainReportCallback=xgboost_RayTrainReportCallback"),
    "ray.train.lightgbm": _of("callbacks.boosting", "RayTrainReportCallback=lightgbm_RayTrainReportCallback"),
    "ray.tune.result": _of(
        "result_names",
        "TRAINING_ITERATION TIME_TOTAL_S TIME_THIS_ITER_S DONE SHOULD_CHECKPOINT DEFAULT_METRIC TRIAL_ID",
    ),
    "ray.tune.execution": {},
    "ray.tune.execution.placement_groups": _GROUPS,
    "ray.tune.utils.placement_groups": _GROUPS,
    "ray.util": {},
    "ray.util.spark": _SPARK,
    "ray.exceptions": _of("recorded_trials", "RayTaskError"),
}
for _name in ("search", "suggest"):
    MODULES[f"ray.tune.{_name}.optuna"] = _OPTUNA
    MODULES[f"ray.tune.{_name}.hyperopt"] = _of("space.search_algorithms", "HyperOptSearch")
    MODULES[f"ray.tune.{_name}.bohb"] = _of("space.search_algorithms", "TuneBOHB")
    MODULES[f"ray.tune.{_name}.bayesopt"] = _of("space.search_algorithms", "BayesOptSearch")
    MODULES[f"ray.tune.{_name}.ax"] = _of("space.search_algorithms", "AxSearch")
    MODULES[f"ray.tune.{_name}.skopt"] = _of("space.search_algorithms", "SkOptSearch")
    MODULES[f"ray.tune.{_name}.hebo"] = _of("space.search_algorithms", "HEBOSearch")
    MODULES[f"ray.tune.{_name}.nevergrad"] = _of("space.search_algorithms", "NevergradSearch")
    MODULES[f"ray.tune.{_name}.zoopt"] = _of("space.search_algorithms", "ZOOptSearch")
    MODULES[f"ray.tune.{_name}.dragonfly"] = _of("space.search_algorithms", "DragonflySearch")

_TRAINERS = "train in the trial itself, and several workers for one trial are Study(workers_per_trial=), docs/gangs.md."
REFUSED_MODULES = {
    "ray.rllib": "RLlib is not here; a trainable of your own can run any environment.",
    "ray.data": "read the data in the trial, or by Spark.",
    "ray.serve": "serve the model by another library.",
    "ray.train": _TRAINERS,
    "ray.util.multiprocessing": "use multiprocessing or joblib.",
    "ray.util.joblib": "use joblib itself, or joblibspark.",
    "ray.job_submission": "submit the program by spark-submit.",
}
"""Module -> what to write instead."""

REFUSED = {
    ("ray.train", "DataConfig"): REFUSED_MODULES["ray.data"],
    ("ray.tune.integration.mlflow", "mlflow_mixin"): "call setup_mlflow(config) in the trainable.",
    ("ray.tune.integration.wandb", "wandb_mixin"): "call setup_wandb(config) in the trainable.",
    ("ray.tune.schedulers", "PB2"): "use PopulationBasedTraining.",
    ("ray.tune.schedulers", "ResourceChangingScheduler"): "resources of a trial stay; Study(autoscale=) is near to it.",
    ("ray.tune.schedulers", "PopulationBasedTrainingReplay"): "explain(trial) of results.study tells a schedule.",
    ("ray", "wait"): "there are no remote functions here.",
    ("ray", "kill"): "there are no actors here.",
    ("ray", "method"): "there are no actors here.",
    ("ray", "data"): REFUSED_MODULES["ray.data"],
    ("ray", "serve"): REFUSED_MODULES["ray.serve"],
}
"""(module, name) -> what to write instead."""
