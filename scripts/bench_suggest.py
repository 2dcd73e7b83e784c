"""The way of a suggestion to the driver and back, and what an objective of suggestions alone costs.

Figures: ``suggest_p99_ms`` is the 99th percentile over ``--workers`` workers that suggest without a pause, and
``suggest_p50_ms`` the median. Their baselines are those of the same workers' bytes to a process that sends them back by
a bare socket, one after each suggestion: what more processes than cores cost anybody there. ``suggest_trial_ms`` is the
time of a trial of 20 suggestions and no work; its baseline is that of a trial of plain asyncsearch, which draws all
values at once. ``suggest_storage_ratio`` has that of Optuna itself with journal storage in as many processes as its
baseline. ``fmin_again_ms`` is the median time from a further ``fmin`` of the same trials of Hyperopt to the beginning
of its objective; its baseline is what the driver's thread computes in all of that ``fmin``. ``suggest_crowd_p99_ms``
is the 99th percentile of the time until the driver has answered a suggestion where ``--crowd`` workers ask at the same
moment, 30 times each: they are no processes, so that it is the driver's share alone. Its baseline is that of as many
trials of Optuna itself, which ask in the same order.

    python scripts/bench_suggest.py [--only crowd] [--workers 8] [--suggestions 500] [--trials 200] [--crowd 64]
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import selectors
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
from _bench import Figure, percentile, show

import asyncsearch.hyperopt as hyperopt
import asyncsearch.optuna as ours
from asyncsearch import Study, uniform
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.optuna.answering import StudyAnswerer
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.trial_ends import OptimizeOptions

NAMES = [f"x{number}" for number in range(20)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=8, help="workers that suggest at the same time")
    parser.add_argument("--suggestions", type=int, default=500, help="suggestions of each of them")
    parser.add_argument("--trials", type=int, default=200, help="trials of 20 suggestions and no work")
    parser.add_argument("--parallelism", type=int, default=2, help="workers that run these")
    parser.add_argument("--crowd", type=int, default=64, help="workers that ask at the same moment")
    parser.add_argument("--only", choices=["crowd"], help="measure this part alone")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    crowd = Figure("suggest_crowd_p99_ms", crowded_here(given.crowd), "ms", crowded_plain(given.crowd))
    if given.only:
        show(f"A suggestion to one of {given.crowd} workers", [crowd])
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # workers that wait still write there
        waits, echoes = latencies(Path(folder), given.workers, given.suggestions)
        here = seconds_here(Path(folder), given.trials, given.parallelism)
        plain = seconds_plain(Path(folder), given.trials, given.parallelism)
        stored = seconds_stored(Path(folder), given.trials, given.parallelism)
        again = milliseconds_again(Path(folder))
    each = 1e3 / given.trials
    print(f"suggestions: {len(waits):,}; trials: {given.trials:,} on {given.parallelism} workers")
    figures = [
        Figure("suggest_p99_ms", percentile(waits, 99), "ms", percentile(echoes, 99)),
        Figure("suggest_p50_ms", percentile(waits, 50), "ms", percentile(echoes, 50)),
        Figure("suggest_trial_ms", each * here, "ms", each * plain),
        Figure("suggest_storage_ratio", each * here, "ms", each * stored),
        Figure("fmin_again_ms", again[0], "ms", again[1]),
        crowd,
    ]
    show("A suggestion", figures)


def send_back(listener: socket.socket) -> None:
    """Send back what comes, for ever."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                found: Any = key.fileobj
                if found is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                elif data := found.recv(4_096):
                    found.sendall(data)
                else:
                    selector.unregister(found)


@contextlib.contextmanager
def echo() -> Iterator[tuple[str, int]]:
    """Run a process that sends back what comes, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("spawn").Process(target=send_back, args=(listener,))
        process.start()
        try:
            yield listener.getsockname()
        finally:
            process.kill()
            process.join()


def latencies(folder: Path, workers: int, suggestions: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each suggestion, and those of each echo, sorted."""
    with echo() as address:

        def objective(trial: Any) -> float:
            trial.suggest_float("first", 0, 1)
            waits, echoes = [], []
            with socket.create_connection(address) as line:
                for number in range(suggestions):
                    began = time.perf_counter()
                    trial.suggest_float(f"x{trial.number}_{number}", 0, 1)  # no other has it: it is not drawn ahead
                    asked = time.perf_counter()
                    line.sendall(bytes(300))
                    line.recv(300)
                    waits.append(1e3 * (asked - began))
                    echoes.append(1e3 * (time.perf_counter() - asked))
            trial.set_user_attr("waits", [waits, echoes])
            return 0.0

        ours.workers(workers, backend="processes", store=str(folder / "waits"), display="none")
        study = ours.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        study.optimize(objective, n_trials=workers)
    found = [trial.user_attrs["waits"] for trial in study.trials]
    waits, echoes = [sorted(one for each in found for one in each[place]) for place in (0, 1)]
    return waits, echoes


def objective(trial: Any) -> float:
    return float(sum(trial.suggest_float(name, 0, 1) for name in NAMES))


def seconds_here(folder: Path, trials: int, workers: int) -> float:
    """Return how long the trials take here, from the first one's beginning on."""
    ours.workers(workers, backend="processes", store=str(folder / "here"), display="none")
    study = ours.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=trials)
    return span(study)


def span(study: Any) -> float:
    found = study.trials
    first = min(trial.datetime_start for trial in found)
    seconds: float = (max(trial.datetime_complete for trial in found) - first).total_seconds()
    return seconds


def seconds_plain(folder: Path, trials: int, workers: int) -> float:
    """Return how long as many trials of plain asyncsearch take, whose values come with their work."""
    study = Study(
        lambda trial: sum(trial.params.values()),
        space={name: uniform(0, 1) for name in NAMES},
        metric="sum",
        mode="min",
        store=folder / "plain",
        backend="processes",
    ).run(trials, parallelism=workers, display="none")
    found = study.trials
    return max(trial.ended_s or 0.0 for trial in found) - min(trial.started_s or 0.0 for trial in found)


def journal(file: str) -> Any:
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(file))


def optimize_stored(file: str, trials: int) -> None:
    """Run some of the trials of a study that processes share."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=0)
    optuna.load_study(study_name="stored", storage=journal(file), sampler=sampler).optimize(objective, n_trials=trials)


def seconds_stored(folder: Path, trials: int, processes: int) -> float:
    """Return how long they take with Optuna's journal storage in some processes."""
    file = str(folder / "stored.log")
    optuna.create_study(study_name="stored", storage=journal(file))
    context = multiprocessing.get_context("spawn")
    each = trials // processes
    started = [context.Process(target=optimize_stored, args=(file, each)) for _ in range(processes)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return span(optuna.load_study(study_name="stored", storage=journal(file)))


ROUNDS = 30
"""Suggestions of each worker of a crowd."""


def crowded_here(workers: int) -> float:
    """Return the 99th percentile of the milliseconds until the driver's half has answered one of a crowd."""
    codec, study = ValueCodec(), ours.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    answerer = StudyAnswerer(study, codec, OptimizeOptions(workers, None, (), (), False, False, False))
    leases = [Lease(number, WorkerId(number), 1) for number in range(workers)]

    def ask(worker: int, *question: Any) -> None:
        answer = codec.loads(answerer.answer(TrialId(worker), leases[worker], codec.dumps(list(question))).content)
        assert answer[0] == "ok", answer

    for worker in range(workers):
        ask(worker, "begin", 0)
    return crowded(
        workers, lambda worker, name: ask(worker, "suggest", name, optuna.distributions.FloatDistribution(0, 1))
    )


def crowded_plain(workers: int) -> float:
    """Return the same of Optuna's own trials."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    trials = [study.ask() for _ in range(workers)]
    return crowded(workers, lambda worker, name: trials[worker].suggest_float(name, 0, 1))


def crowded(workers: int, suggest: Callable[[int, str], object]) -> float:
    """Return the 99th percentile of the milliseconds that a worker of a crowd waits."""
    waits = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        for worker in range(workers):
            suggest(worker, f"x{number}")
            waits.append(1e3 * (time.perf_counter() - began))
    return percentile(sorted(waits), 99)


def milliseconds_again(folder: Path) -> tuple[float, float]:
    """Return the median time until a further ``fmin`` evaluates, and that for which the driver's thread computes."""
    hyperopt.workers(1, backend="processes", store=str(folder / "again"))
    trials, space = hyperopt.Trials(), hyperopt.hp.uniform("x", 0, 1)

    def begun(_x: float) -> dict[str, Any]:
        return {"loss": 0.0, "status": "ok", "begun": time.monotonic()}  # one clock for all processes of a machine

    waits, computed = [], []
    for most in range(1, 22):
        began, before = time.monotonic(), time.thread_time()
        hyperopt.fmin(begun, space, algo=hyperopt.rand.suggest, max_evals=most, trials=trials, verbose=False)
        computed.append(1e3 * (time.thread_time() - before))
        waits.append(1e3 * (trials.results[-1]["begun"] - began))
    return percentile(sorted(waits[1:]), 50), percentile(sorted(computed[1:]), 50)


if __name__ == "__main__":
    main()
