"""``Study``: what users create, run and resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from asyncsearch.arguments import positive, seconds_of, text_of, workers_of, yes_or_no
from asyncsearch.checked_calls import answering, grouped
from asyncsearch.driver.callbacks import callbacks_of
from asyncsearch.engine.config import search_config
from asyncsearch.engine.method_checks import require_proposal, require_target
from asyncsearch.errors import AsyncSearchError, StudyNotFoundError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.journal.opening import read_study_file, replay
from asyncsearch.launch import require_backend
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.bundle import pack, with_sources
from asyncsearch.launch.threads.held import hold, require_sendable
from asyncsearch.other_libraries.names import attribute_answer
from asyncsearch.plan.keys import canonical, digest, path
from asyncsearch.report.formatting import printable
from asyncsearch.report.live.display import Display, open_display
from asyncsearch.report.what_if.preview import Preview
from asyncsearch.schedulers.base_scheduler import Scheduler, require_scheduler
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.searchers import searcher_of
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.sentences import in_sentences, warn_of_former_name
from asyncsearch.sequences import NamedObject
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.shared.options import EVALUATIONS, default_names, open_folder, read_defaults, require_shared, trusts
from asyncsearch.sizing.autoscale import Autoscale
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.pack_strategies import PackStrategy
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space
from asyncsearch.stop_rules import StopProgress, StopRule, study_rule, trial_rule
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.opening import resumable
from asyncsearch.store.patience import TIMEOUT_S, waiting
from asyncsearch.study.asked.devices_option import devices_for
from asyncsearch.study.asked.gang_option import gang_for
from asyncsearch.study.asked.options import GROUPS, Checkpoints, Sharing, WorkerOptions, missing_mode, require_groups
from asyncsearch.study.asked.packing_option import could_pack, pack_by_of, packing_of, require_choices
from asyncsearch.study.asked.trainable_checks import (
    can_evaluate,
    can_save,
    require_ablated,
    require_pausable,
    require_sequences,
    require_trainable,
    sent_with_functions,
)
from asyncsearch.study.asking.asking_study import Asking, evaluated_elsewhere, require_trained_here
from asyncsearch.study.evaluate import Evaluation, KnownPath, params_in, train_single
from asyncsearch.study.kept.default_store import DefaultFolder
from asyncsearch.study.kept.definition import Code, StudyDefinition, read_plan
from asyncsearch.study.kept.warm_start import begin_searcher, kept, warm_start_of
from asyncsearch.study.preview_run import preview_run
from asyncsearch.study.remote.client import REMOTELY
from asyncsearch.study.results import Results
from asyncsearch.study.runnable import RunnableStudy, require_bounded
from asyncsearch.study.script_runs import note_run
from asyncsearch.study.threads_option import is_in_threads, require_threads
from asyncsearch.trainable import Trainable, WithFunctions
from asyncsearch.trial import Trial

_log = logging.getLogger(__name__)
_FIRST = "Study(train, space={'lr': loguniform(1e-4, 1e-1)}, metric='accuracy', mode='max')"
_SHARING, _WORKERS, _CHECKPOINTS = Sharing(), WorkerOptions(), Checkpoints()


class Study(Asking, Results):
    """A search: a trainable, its space of configurations, and the metric to optimise.

    Example::

        study = Study(train, space={"lr": loguniform(1e-4, 1e-1)}, metric="accuracy", mode="max",
                      scheduler=ASHA(max_resource=81), store="studies/digits")
        study.run(num_trials=256)
        study.best_trial.params
    """

    @answering("Study", _FIRST, instead=grouped(**GROUPS), missing={"mode": missing_mode})
    def __init__(
        self,
        trainable: Trainable,
        *,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        rank_by: str = "last",
        searcher: Searcher | str | Any = None,
        scheduler: Scheduler | None = None,
        store: str | Path | Store | None = None,
        name: str | None = None,
        seed: int = 0,
        resume: bool = False,
        warm_start: Sequence[str | Path | Results] = (),
        version: str = "",
        share: bool = True,
        backend: str | Launcher = "auto",
        save_every: int | None = None,
        max_failures: int = 0,
        stop_when: StopRule | Callable[[StopProgress], Any] | None = None,
        stop_trial_when: StopRule | Callable[[StopProgress], Any] | None = None,
        sharing: Sharing = _SHARING,
        pack: int | str | None = None,
        pack_opt: str | PackStrategy = "plan",
        workers_per_trial: int | Gang | None = None,
        autoscale: Autoscale | None = None,
        devices_per_trial: float | None = None,
        workers: WorkerOptions = _WORKERS,
        checkpoints: Checkpoints = _CHECKPOINTS,
    ) -> None:
        """Describe a study; nothing is started and nothing is written.

        Args:
            trainable: a function of a trial, or a class derived from ``Trainer``.
            space: name -> domain, constant, or a nested mapping of these; or a ``Space``.
            metric: name of the reported value that is optimised.
            mode: ``"min"`` or ``"max"``: whether the lowest or the highest values of the metric are the best.
            rank_by: which value ranks a trial among others, for ``best_trial``, tables and the checkpoints that are
                kept: ``"last"``, which its checkpoint has, or ``"best"``, the best that it ever reported; a training
                that can be saved is saved at such a report, and ``checkpoint`` finds it. Schedulers and searchers
                compare trials at equal resources in any case.
            searcher: proposes configurations: ``"random"`` (the default), ``"grid"``, ``"sobol"``, ``"tpe"``, ``"gp"``,
                ``"cmaes"``, ``"nsgaii"``, a sampler of Optuna, or a searcher such as ``GridSearch(points=5)``.
            scheduler: decides how far each trial trains; by default ``FIFO()``.
            store: folder or URL that holds everything the study writes; by default a new folder in ``studies``, named
                after the script and the study, or with ``resume`` the last one of these.
            name: the displayed name; by default the last part of the store, else the name of the trainable.
            seed: of the proposals and of every trial; 0 <= seed < 2**63.
            resume: continue the study in the store, if there is one.
            warm_start: earlier studies of the same space and metric, their stores, or studies of Optuna. A searcher
                that learns starts with the results of their trials, any other with their best configurations; see
                docs/searchers.md.
            version: your name for this version of code and data. Studies with the same version, seed and trainable
                train a common beginning once; see docs/sharing.md. Without one nothing is shared with others.
            share: train the common beginning of trials once; False: each trial trains all of its units itself, except
                that ``PBT`` copies weights.
            backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"spark-cluster"`` (Spark,
                with the search's driver as one of its tasks), ``"processes"``, ``"threads"`` (of this process, for
                trials that start Spark jobs or wait), ``"inline"``, or a ``Launcher``.
            save_every: interval, in units of resource, at which running trials are saved; None means only when they
                pause or end.
            max_failures: how often a failed trial is retried.
            stop_when: ends the study once enough is trained: ``Reached(0.99)``, ``Plateau(trials=20)``,
                ``Trained(10_000)``, ``Elapsed(3600)``, these joined by ``|`` and ``&``, or a function of the
                ``StopProgress``; see docs/stop_rules.md.
            stop_trial_when: likewise for each trial, by its own reports, units and time.
            sharing: the folder that studies of one version share, default values of parameters, and a quota in bytes.
            pack: how many alike trials a worker may train together; ``"auto"``: as many as train fastest, which the
                first packs measure; None means each alone. Needs a ``Trainer`` with ``train_pack``. Results agree with
                those of trials that train alone within a tolerance, not to the bit.
            pack_opt: how those trials are chosen: ``"plan"`` (of one structure, in the order of the search),
                ``"nearest"`` (nearest hyper-parameters), ``"batch_size"`` (the same one) or ``"random"``; or a function
                of a ``PackChoice`` that returns some of its ``others``; see docs/packing.md.
            workers_per_trial: how many workers train one trial together, data-parallel; or a ``Gang``, with which
                trials go on with fewer while a lost worker is replaced. None means one. See docs/gangs.md.
            autoscale: lets trials have more workers than that where some are free, as long as they gain enough; see
                docs/autoscaling.md. None means never.
            devices_per_trial: how many GPUs the workers of a trial see; a fraction such as 0.5: two trials share one,
                each with its part of the memory. None means what their machine shows. See docs/devices.md.
            workers: timeouts of trials and leases, and the start and end of worker processes.
            checkpoints: which checkpoints are kept, and how long a store that cannot be used is waited for.

        Raises:
            UsageError: an argument is invalid; the message names it and what to write instead.
        """
        require_groups(sharing, workers, checkpoints)
        require_trainable(trainable, str(metric))
        self.trainable: Trainable | None = trainable
        searcher, code = searcher_of(searcher), Code.of(trainable)
        space = searcher.extended(Space.of(space))
        scheduler = FIFO() if scheduler is None else require_scheduler(scheduler)
        label = getattr(trainable, "__name__", type(trainable).__name__)
        share, resume = yes_or_no("share", share), yes_or_no("resume", resume)
        self.name = text_of("name", name or "")
        default = None if store is not None else DefaultFolder(self.name or label)
        if default is not None:
            self.name = self.name or label
            last = default.last() if resume else None
            store, default = last or default.choose(), None if last else default
        place = open_store(resumable(store or "") if resume else store or "")
        self.name = self.name or place.shown.rstrip("/").rsplit("/", 1)[-1] or label
        self.shared = open_folder(place, sharing.shared, version, share=share, trainable=trainable)
        defaults = read_defaults(sharing.defaults)
        self.config = search_config(
            space,
            scheduler,
            share=None if share and self.shared is None else share,
            study=self.name,
            metric=metric,
            mode=mode,
            rank_by=rank_by,
            seed=seed,
            version=text_of("version", version),
            max_failures=max_failures,
            stop_when=None if stop_when is None else study_rule(stop_when),
            stop_trial_when=None if stop_trial_when is None else trial_rule(stop_trial_when),
            **checkpoints.for_engine(),
            quota_bytes=sharing.quota_bytes if self.shared is None else None,
            save_every=save_every,
            shared_as="" if self.shared is None else code.name,
            defaults=defaults,
            can_evaluate=can_evaluate(trainable),
            can_save=can_save(trainable),
            pack_by=pack_by_of(trainable, space.names | default_names(defaults), is_packed=pack is not None),
        )
        settings = checkpoints.with_timeout(workers.for_driver())
        launcher = require_backend(backend)
        with waiting(settings.store_timeout_s, _log.warning, place):
            warm = warm_start_of(place, warm_start, space=space, config=self.config, resume=resume)
        begun = begin_searcher(searcher, space, self.config, warm)
        require_proposal(searcher, begun, space)
        require_target(scheduler, scheduler.begin(space, seed))
        require_pausable(trainable, scheduler)
        require_sequences(trainable, space, scheduler, share=share)
        packs: dict[str, Any] = {"fresh_process": workers.fresh_process, "names": self.config.pack_by}
        packing = packing_of(trainable, scheduler, pack, pack_opt, share=share, **packs)
        require_choices(packing, begin_searcher(searcher, space, self.config, warm))
        gang = gang_for(trainable, space, workers_per_trial, packing, autoscale)
        definition = StudyDefinition(
            trainable=b"",
            space=space,
            searcher=searcher,
            scheduler=scheduler,
            config=self.config,
            settings=settings,
            worker=workers.for_agents() | checkpoints.for_agents(),
            backend=launcher if isinstance(launcher, str) else "auto",
            shared=self.shared,
            quota_bytes=sharing.quota_bytes,
            is_trusted=trusts(self.shared, sharing.trusted),
            packing=packing,
            gang=gang,
            is_tolerant=require_shared(self.shared, is_tolerant=sharing.tolerant),
            devices=devices_for(devices_per_trial, gang),
            keep_dirs=checkpoints.keep_dirs,
        )
        require_threads(launcher, definition, trainable)
        self._runnable: RunnableStudy | None = RunnableStudy(
            store=place,
            definition=definition,
            code=code,
            warm=warm,
            resume=resume,
            backend=launcher,
            could_pack=could_pack(trainable, scheduler, pack, share=share),
            default=default,
        )
        self._seen = None

    @classmethod
    @answering("Study.to_ask", "Study.to_ask(space={'x': uniform(0, 1)}, metric='yield', mode='max')")
    def to_ask(
        cls,
        *,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        rank_by: str = "last",
        searcher: Searcher | str | Any = None,
        scheduler: Scheduler | None = None,
        store: str | Path | Store | None = None,
        name: str | None = None,
        seed: int = 0,
        resume: bool = False,
        warm_start: Sequence[str | Path | Results] = (),
        max_failures: int = 0,
        stop_when: StopRule | Callable[[StopProgress], Any] | None = None,
        stop_trial_when: StopRule | Callable[[StopProgress], Any] | None = None,
    ) -> Study:
        """Return a study whose trials are evaluated elsewhere: in a laboratory, by another queue, by hand.

        ``study.ask()`` returns a trial, ``trial.tell(value)`` its result; the searcher, the scheduler and the journal
        are those of any study, and the arguments as of ``Study``. Nothing is trained here. See docs/ask_and_tell.md.

        Raises:
            UsageError: an argument is invalid; the message names it and what to write instead.
        """
        return cls(
            evaluated_elsewhere,
            space=space,
            metric=metric,
            mode=mode,
            rank_by=rank_by,
            searcher=searcher,
            scheduler=scheduler,
            store=store,
            name=name,
            seed=seed,
            resume=resume,
            warm_start=warm_start,
            max_failures=max_failures,
            stop_when=stop_when,
            stop_trial_when=stop_trial_when,
            share=False,
            backend="inline",
        )

    @classmethod
    @answering("Study.resume", "Study.resume('studies/digits')")
    def resume(cls, store: str | Path, *, backend: str | Launcher | None = None) -> Study:
        """Return the study of a store, ready to ``run``, with the trainable that it was created with.

        Args:
            store: its folder or URL, or the rescue file that a run wrote when its folder was removed; that is written
                back to where the folder was.
            backend: as in ``Study``; None means that of the study.

        Raises:
            StudyNotFoundError: the store holds no study.
        """
        place = open_store(resumable(store))
        with waiting(TIMEOUT_S, _log.warning, place):
            study = cls.open(place)  # type: ignore[arg-type]  # a store is what open_store gives back
            file = study._require_file()
            kept_one = read_plan(study.store, file)
            shared = None if kept_one.shared is None else kept_one.shared.with_keys_of(study.store)
            definition = msgspec.structs.replace(kept_one, shared=shared)
            require_sendable(definition.trainable, study.store.shown, in_threads=True)
            study.config, study.shared = definition.config, shared
            study._runnable = RunnableStudy(
                store=study.store,
                definition=definition,
                code=Code.in_file(file),
                warm=kept(study.store),
                resume=True,
                backend=backend or definition.backend,
            )
        return study

    @classmethod
    @in_sentences()
    def open(cls, store: str | Path) -> Study:
        """Return the study of a store to read its results. Nothing is unpickled, so its code need not be importable.

        Raises:
            StudyNotFoundError: the store holds no study.
        """
        study = cls.__new__(cls)
        study._runnable = None
        study._open(store)
        return study

    @property
    def store(self) -> Store:
        """The place of everything that the study writes; of a study without a named store, from its first run on."""
        return self._place if self._runnable is None else self._runnable.store

    @property
    def space(self) -> Space:
        """The space; a study that was only opened has none, as it has no searcher and scheduler."""
        return self._definition.space

    @property
    def searcher(self) -> Searcher:
        """The searcher."""
        return self._definition.searcher

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler."""
        return self._definition.scheduler

    @property
    def gang(self) -> Gang | None:
        """How many workers train a trial together; None means one, or the study was only opened."""
        return None if self._runnable is None else self._runnable.definition.gang

    @property
    def packing(self) -> Packing | None:
        """How workers get several trials together; None if each trains alone, or the study was only opened."""
        return None if self._runnable is None else self._runnable.definition.packing

    def _objects(self) -> Sequence[NamedObject]:
        return () if self._runnable is None else self._runnable.definition.space.objects

    @property
    def _definition(self) -> StudyDefinition:
        if self._runnable is None:
            raise AttributeError
        return self._runnable.definition

    @answering("run", "study.run(num_trials=64)")
    def run(
        self,
        num_trials: int | None = None,
        *,
        parallelism: int | None = None,
        timeout: float | timedelta | None = None,
        callbacks: Sequence[Callable[[Study, Trial], object]] | Callable[[Study, Trial], object] = (),
        display: str = "auto",
        logs: bool = False,
    ) -> Study:
        """Search until ``num_trials`` trials exist and none of them has anything left to train.

        Args:
            num_trials: total number of trials, those of earlier runs included; None means until the searcher has no
                more proposals.
            parallelism: number of workers; None means one for each slot of the cluster.
            timeout: seconds, or a ``timedelta``, after which the run ends and keeps its results.
            callbacks: functions that are called here with this study and each trial that has ended, one at a time. The
                search does not wait for them; what one raises is told, and ends nothing.
            display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
            logs: whether to show the lines that trials print.

        Raises:
            AsyncSearchError: the search could not start, or failed; every acknowledged report is in the store.
            KeyboardInterrupt: it was interrupted; all results are kept, and ``run`` continues the search.
        """
        self._described("run")
        num_trials = None if num_trials is None else positive("num_trials", num_trials)
        parallelism = None if parallelism is None else workers_of("parallelism", parallelism)
        timeout_s = None if timeout is None else seconds_of("timeout", timeout)
        called = callbacks_of(callbacks)
        note_run(self, num_trials, parallelism)
        shown = open_display(display, logs=logs)
        self._shown_in = None
        run_shown(self, num_trials, parallelism, timeout_s, shown, callbacks=called)
        self._shown_in = shown.cell
        return self

    @answering("preview", "study.preview(num_trials=64)")
    def preview(
        self,
        num_trials: int | None = None,
        *,
        parallelism: int | None = None,
        seconds_per_unit: float | None = None,
        like: str | Path | Results | None = None,
        pack: int | str | None = None,
        pack_speedup: Mapping[int, float] | Mapping[str, Mapping[int, float]] | None = None,
        gang_speedup: Mapping[int, float] | None = None,
    ) -> Preview:
        """Estimate a search before it runs: its rungs, the trials at each, the units of training, and the time.

        The time is that of a simulation of the search, or of a part of a large one, with artificial learning curves.
        All figures are for the whole search from its beginning; if the study has trials already, a note gives their
        number, and how many a run would add.

        Args:
            num_trials: as in ``run``, but at most as many as the searcher proposes, which is also the default.
            parallelism: number of workers; None means as many as ``run`` would have, as far as that is known before it.
            seconds_per_unit: time of one unit of training, if you know it.
            like: an earlier study, or its store, from which to take the measured time; None means this study, if it has
                run.
            pack: how many alike trials a worker trains together, or ``"auto"``; 1: each alone; None means as the study.
            pack_speedup: how many times as much packs train in the same time, as of ``TrainingModel``, e.g.
                ``{8: 5.0}``; None means as measured in that study.
            gang_speedup: with ``autoscale=``, how many times as fast k workers train a trial, e.g.
                ``{2: 1.9, 4: 3.4}``; None means as measured in that study, else by the least efficiency.

        Raises:
            UsageError: a number is out of range, ``num_trials`` is missing for an endless searcher, nothing was
                measured in the study that ``like`` names, or nothing is known of what packs gain.
            ResourceError: the scheduler cannot run this search.
            StudyNotFoundError: there is no study at ``like``.
        """
        study = self._described("preview")
        already = 0 if read_study_file(self.store) is None else len(self._read_state().trials)
        own = study, num_trials, parallelism, seconds_per_unit, like, already
        return preview_run(*own, pack, pack_speedup, gang_speedup)

    @in_sentences()
    def evaluate(self, params: Mapping[str, Any], resource: int) -> Evaluation:
        """Return the metrics of a configuration as last reported at or before a resource, with that report's resource.

        The answer is immediate if this study, or one that it shares with, has trained the configuration that far.
        Otherwise it is trained by a search of one trial in a folder inside this study's store. That search shares as
        this study does, and continues from this study's checkpoints. A checkpoint at the resource without a report of
        the metric is evaluated, if the trainable can evaluate.

        Args:
            params: a complete configuration of the space, or a schedule that ``PBT`` found in this study.
            resource: units of training, from 1 to the scheduler's ``max_resource``.

        Raises:
            SpaceError: the configuration is not in the space, and no trial of the study had it.
            UsageError: the resource is out of range, or its metrics are unknown and the study was only opened.
            MetricNotReportedError: nothing was reported up to the resource.
            AsyncSearchError: the training failed.
        """
        resource = positive("resource", resource)
        end = self._max_resource()
        if end is not None and resource > end:
            raise UsageError(f"resource={resource} is beyond max_resource={end} of this study. Use resource <= {end}.")
        display = open_display("none")
        given = dict(params) if self._runnable is None else params_in(self.space, params, self.store)
        if self._runnable is not None:
            self._runnable.take_store(display)
        root = self.config.root
        steps = path(root, {**self.config.defaults, **given}, resource)
        home = self.store.child(f"{EVALUATIONS}/{digest(root, canonical(given), str(resource))}")
        known_path = KnownPath(given, steps, resource)
        known = self._known(known_path, home)
        if known is None:
            mine = self._with_trainable(self._described("run"), display)
            mine.require_places()
            trial = train_single(mine, known_path, end, home, display)
            mine.keep_quota(display)
            known = self._known(known_path, home)
            if known is None:
                raise AsyncSearchError(f"It could not be trained to {resource}: {printable(trial.reason)}")
        return known

    def eval(self, params: Mapping[str, Any], resource: int) -> Evaluation:
        """Return the same as ``evaluate``, with a ``DeprecationWarning``: the former name, which goes after 0.3."""
        warn_of_former_name("Study.eval", "Study.evaluate", last="0.3")
        return self.evaluate(params, resource)

    def _known(self, known_path: KnownPath, home: Store) -> Evaluation | None:
        shared = None
        if self.shared is not None:
            takes_packed = self._runnable is not None and self._runnable.definition.takes_packed
            shared = SharedFolder(self.shared, takes_packed=takes_packed)
        can_evaluate = self.config.can_evaluate and self._runnable is not None
        return known_path.read((self.store, home), shared, self.config.metric if can_evaluate else "")

    def _max_resource(self) -> int | None:
        study = self._runnable
        return self._require_file().max_resource if study is None else study.definition.scheduler.max_resource

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            answer = attribute_answer("study", name)
            words = f": write {answer}." if answer else "."
            raise AttributeError(f"A study has no {name!r}{words}", name=name, obj=self)

    def __repr__(self) -> str:
        config = self.config
        return f"Study({self.name!r}, metric={config.metric!r}, mode={config.mode!r}, store={self.store.shown!r})"

    def _not_found(self) -> StudyNotFoundError:
        if self._runnable is None:
            return super()._not_found()
        return StudyNotFoundError(f"{self.name!r} has not been run yet: write study.run(num_trials=64) first.")

    def _position(self, trial: TrialId) -> str:
        words = super()._position(trial)
        if words or self._runnable is None:
            return words
        state = self._runnable.fresh_state()
        replay(self.store, state)
        return state.scheduler.position(trial)

    def _described(self, method: str) -> RunnableStudy:
        """Return the study as it is run.

        Raises:
            UsageError: it was opened to read its results only.
        """
        if self._runnable is None:
            raise UsageError(
                f"{self.name!r} was opened to read its results. To {method} it, write "
                f"Study.resume({self.store.shown!r}).{method}(...)."
            )
        return self._runnable

    def _with_trainable(self, study: RunnableStudy, display: Display) -> RunnableStudy:
        """Pickle the trainable for the workers, once."""
        definition = study.definition
        if not definition.trainable:
            require_trained_here(getattr(self, "trainable", None), self.name)
            assert self.trainable is not None
            space = definition.space
            sent = sent_with_functions(self.trainable, definition.searcher)
            if numbered := ", ".join(one.name for one in space.objects if one.is_numbered):
                words = "have no names of their own, and are known by their places in choice(...)"
                display.warn([f"{numbered} {words}: let these stay where the study goes on."])
            functions, versions = space.custom_functions, space.function_versions
            sent = WithFunctions(sent, functions, versions, space.objects) if functions or space.objects else sent
            if is_in_threads(study.backend):
                study.definition = msgspec.structs.replace(definition, trainable=hold(sent))
                return study
            packed = pack(sent)
            study.definition = msgspec.structs.replace(definition, trainable=with_sources(packed))
            display.warn(packed.warnings)
        return study


def run_shown(
    study: Study,
    num_trials: int | None,
    parallelism: int | None,
    timeout_s: float | None,
    display: Display,
    **options: Any,
) -> Study:
    """Run a study with checked arguments; ``options`` are those of ``RunnableStudy.run``."""
    own = study._described("run")
    store_timeout_s = own.definition.settings.store_timeout_s
    with waiting(store_timeout_s, lambda sentence: display.warn([sentence]), study.store, study.shared):
        if read_study_file(study.store) is None:
            require_ablated(study.trainable, own.definition.searcher, own.begin_searcher())
        # After a failure the state may be ahead of the journal, which decides.
        study._seen = None
        runnable = study._with_trainable(own, display)
        study._seen = runnable.run(
            num_trials, parallelism, timeout_s, display, study=study, remotely=REMOTELY, **options
        )
    return study


def backend_of(study: Study) -> str | Launcher:
    """Return the backend of a study that can be run.

    Raises:
        UsageError: it was opened to read its results only.
    """
    return study._described("run").backend


def require_end(study: Study, num_trials: int | None) -> None:
    """Refuse a search that has no last trial, before anything of a run is started.

    Raises:
        UsageError: the searcher proposes without end and no number of trials is given.
    """
    require_bounded(study.searcher, num_trials, proposals_of(study), "run_together")


def proposals_of(study: Study) -> int | None:
    """Return the number of proposals of a study's searcher; None means without end.

    Raises:
        UsageError: it was opened to read its results only.
    """
    return study._described("run").begin_searcher().length()
