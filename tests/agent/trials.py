"""Trainables for the tests, good and bad; runners import this module."""

# Printing is what some of them are for.
# ruff: noqa: T201

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from asyncsearch.trainable import Trainer, TrialContext

MILLION = 1_000_000
MANY = 50_000
KEPT: list[list[object]] = []


def good(trial: TrialContext) -> None:
    for epoch in trial.epochs():
        trial.report(accuracy=epoch / 10)


def knows_its_beginning(trial: Any) -> None:
    trial.report(accuracy=float(trial.unasked_answer()))


def keeps_many(trial: TrialContext) -> None:
    trial.report(accuracy=gc.get_freeze_count())
    time.sleep(1.1)  # shorter ones would wait longer for a collection than they train
    KEPT.append([[] for _ in range(MANY)])


def no_op(trial: TrialContext) -> None:
    trial.report(accuracy=1.0)


def process_id(trial: TrialContext) -> None:
    trial.report(accuracy=os.getpid(), in_folder=float(os.getcwd() == os.environ.get("PWD", os.getcwd())))


class Net:
    """Something with a state that can be saved."""

    def __init__(self) -> None:
        self.history: list[str] = []

    def save(self, path: Path) -> None:
        path.write_text("\n".join(self.history))

    def load(self, path: Path) -> None:
        self.history = path.read_text().split("\n")
        self.history.append("loaded")


def remembers(trial: TrialContext) -> None:
    """Reports how often it was loaded, and how many units its state has seen."""
    net = Net()
    for epoch in trial.epochs(save=net.save, load=net.load):
        net.history.append(f"{epoch} lr={trial.params['lr']}")
        trial.report(
            accuracy=epoch,
            lr=trial.params["lr"],
            seen=sum(entry != "loaded" for entry in net.history),
            loads=net.history.count("loaded"),
        )


def waits(trial: TrialContext) -> None:
    """Stands still in one epoch, after its report, until somebody writes to a pipe."""
    net = Net()
    for epoch in trial.epochs(save=net.save, load=net.load):
        net.history.append(f"{epoch}")
        trial.report(accuracy=epoch, lr=trial.params["lr"])
        if epoch == trial.params["at"]:
            Path(trial.params["gate"]).read_text()


def saves_the_last(trial: TrialContext) -> None:
    net = Net()

    def save_the_last(path: Path) -> None:
        path.write_text("half of it")
        if trial.resource < 6:
            raise OSError("no space left in this test")
        net.save(path)

    for epoch in trial.epochs(save=save_the_last, load=net.load):
        net.history.append(f"{epoch}")
        trial.report(accuracy=epoch)


class Digits(Trainer):
    """The other way to write a trainable."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.total = 0.0
        self.step = hp["lr"]

    def train(self) -> None:
        self.total += self.step

    def evaluate(self) -> dict[str, Any]:
        return {"accuracy": self.total}

    def save(self, path: Path) -> None:
        path.mkdir()
        (path / "total.txt").write_text(repr(self.total))

    def load(self, path: Path) -> None:
        self.total = float((path / "total.txt").read_text())


def saves_nothing(trial: TrialContext) -> None:
    for _ in trial.epochs(save=lambda path: None, load=lambda path: None):
        trial.report(accuracy=1)


def cannot_pause(trial: TrialContext) -> None:
    for epoch in range(100):
        trial.report(accuracy=epoch)


def swallows_the_pause(trial: TrialContext) -> float:
    net = Net()
    with contextlib.suppress(BaseException):
        for _ in trial.epochs(save=net.save, load=net.load):
            trial.report(accuracy=1)
    return 5.0


# The trials of "What bad input gets"


def raises(trial: TrialContext) -> None:
    print("about to divide")
    trial.report(accuracy=0.5)
    _divide(trial.params["lr"], 0)


def _divide(one: float, other: float) -> float:
    return one / other


def raises_what_cannot_be_shown(trial: TrialContext) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    raise OddError


def raises_what_cannot_be_sent(trial: TrialContext) -> None:
    raise ValueError("a lone surrogate: \udcff")


def returns_nothing(trial: TrialContext) -> None:
    pass


def returns_text(trial: TrialContext) -> str:
    return "very good"


def reports_not_a_number(trial: TrialContext) -> None:
    trial.report(accuracy=math.nan)
    trial.report(accuracy=math.inf)
    trial.report(accuracy=-math.inf)


def reports_text(trial: TrialContext) -> None:
    trial.report(accuracy="very good")


def reports_twice(trial: TrialContext) -> None:
    trial.report(accuracy=0.1, resource=3)
    trial.report(accuracy=0.2, resource=3)


def reports_every_millisecond(trial: TrialContext) -> None:
    for epoch in range(1, 10_000_000):
        trial.report(accuracy=epoch)
        time.sleep(0.001)


def goes_on_after_its_stop(trial: TrialContext) -> None:
    """Swallows each stop that is raised, and SIGTERM too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trial.report(accuracy=1)
    while True:
        with contextlib.suppress(BaseException):
            trial.report(accuracy=2)
            time.sleep(0.001)


def returns_after_its_stop(trial: TrialContext) -> float:
    trial.report(accuracy=1)
    while not trial.should_stop:
        time.sleep(0.001)
    return 2.0


def fails_after_its_stop(trial: TrialContext) -> None:
    trial.report(accuracy=1)
    while not trial.should_stop:
        time.sleep(0.001)
    raise ValueError("torn down in the wrong order")


def hangs(trial: TrialContext) -> None:
    """Never reports again; says whether its ``finally`` ran."""
    trial.report(accuracy=1)
    try:
        time.sleep(1_000_000)
    finally:
        Path(trial.params["note"]).write_text("cleared up")


def hangs_for_ever(trial: TrialContext) -> None:
    """Cannot even be interrupted: no Python code runs any more."""
    trial.report(accuracy=1)
    sum(range(10**15))


def exits(trial: TrialContext) -> None:
    sys.exit(3)


def exits_at_once(trial: TrialContext) -> None:
    sys.stderr.write("leaving now\n")
    os._exit(4)


def interrupts_itself(trial: TrialContext) -> None:
    raise KeyboardInterrupt


def segfaults(trial: TrialContext) -> None:
    print("before the crash")
    ctypes.string_at(0)


def is_killed(trial: TrialContext) -> None:
    trial.report(accuracy=0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def is_terminated(trial: TrialContext) -> None:
    trial.report(accuracy=os.getpid())
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1_000_000)


def exhausts_memory(trial: TrialContext) -> None:
    trial.report(accuracy=os.getpid())
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**30, hard))
    held = bytearray(2**31)
    trial.report(accuracy=len(held))


def prints_a_million_lines(trial: TrialContext) -> None:
    for number in range(MILLION):
        print("line", number)
    trial.report(accuracy=1)


def prints_many_lines(trial: TrialContext) -> None:
    for number in range(MANY):
        print("line", number)
    trial.report(accuracy=1)


def prints_for_ever(trial: TrialContext) -> None:
    trial.report(accuracy=1)
    while True:
        print("and again", "x" * 100)
        if trial.should_stop:
            trial.report(accuracy=2)


def prints_what_is_not_text(trial: TrialContext) -> None:
    sys.stdout.buffer.write(b"\xff\xfe not text \x80\n")
    print("a lone surrogate: \udcff")
    trial.report(accuracy=1)


def prints(trial: TrialContext) -> None:
    """Prints through every way out, the last line without an end."""
    name = trial.name
    print(f"{name} print")
    sys.stderr.write(f"{name} stderr\n")
    os.write(1, f"{name} write\n".encode())
    ctypes.CDLL(None).puts(f"{name} puts".encode())
    subprocess.run(["echo", f"{name} echo"], check=True)
    trial.report(accuracy=1)
    print(f"{name} last", end="")


def ruins_its_outputs(trial: TrialContext) -> None:
    sys.stdout.close()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    os.close(2)
    os.chdir("/")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trial.report(accuracy=1)


def closes_everything(trial: TrialContext) -> None:
    os.closerange(3, 256)
    time.sleep(1_000_000)


def grows(trial: TrialContext) -> None:
    kept: list[bytes] = trial.once(list)
    kept.append(b"x" * 50_000_000)
    trial.report(accuracy=os.getpid())


def tells_its_children(trial: TrialContext) -> None:
    """Starts a script that holds a pipe open, as the trial does itself, then keeps the interpreter busy."""
    pipe = os.open(trial.params["pipe"], os.O_WRONLY)
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]
    child = subprocess.Popen(command, pass_fds=[pipe])
    os.write(pipe, b"ready\n")
    trial.report(accuracy=child.pid)
    while True:
        pass


def tells_its_environment(trial: TrialContext) -> None:
    names = (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "CUDA_VISIBLE_DEVICES",
    )
    for name in names:
        print(f"{name}={os.environ.get(name)}")
    unneeded = {"grpc", "pyspark", "numpy", "asyncio", "fsspec"}
    unneeded |= {f"asyncsearch.{name}" for name in ("sequences", "plan", "space", "engine", "searchers", "schedulers")}
    print(*sorted(unneeded & set(sys.modules)), "imported")
    trial.report(accuracy=1)


class CannotBeLoaded:
    """Unpickling it raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_not_here, ())

    def __call__(self, trial: TrialContext) -> None:
        raise AssertionError


def _not_here() -> None:
    raise ModuleNotFoundError("No module named 'left_at_home'")


class CrashesOnLoad:
    """Unpickling it ends the process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os._exit, (9,))

    def __call__(self, trial: TrialContext) -> None:
        raise AssertionError


class Packed(Trainer):
    """Sums up its learning rate; a pack says how many it trains, and each reports the process that trained it.

    In the unit ``waits_at`` it waits for somebody who writes into ``fifo``.
    """

    def setup(self, hp: dict[str, Any]) -> None:
        self.hp, self.value, self.together = dict(hp), 0.0, 1

    def train(self) -> None:
        self.value += self.hp["lr"]
        if self.hp.get("waits_at") == self.trial.resource + 1:
            Path(self.hp["fifo"]).read_text()
        if self.hp.get("dies_at") == self.trial.resource + 1:
            os.kill(os.getpid(), signal.SIGKILL if self.hp.get("is_killed") else signal.SIGSEGV)

    @classmethod
    def train_pack(cls, trainers: Sequence[Packed]) -> None:
        print(f"a unit of {len(trainers)}")
        for trainer in trainers:
            trainer.together = len(trainers)
            trainer.train()

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": self.value, "together": float(self.together), "pid": float(os.getpid())}

    def save(self, path: Path) -> None:
        path.write_text(str(self.value))

    def load(self, path: Path) -> None:
        self.value = float(path.read_text())


class NotPacked(Packed):
    """Trains one after another."""

    @classmethod
    def can_pack(cls) -> bool:
        return False


class Loud(Packed):
    """Prints a line in each of its units."""

    def train(self) -> None:
        print("one unit")
        super().train()


class Copied(Trainer):
    """Its state is copied at a pause; the copy is written once a pipe has a writer, and says how."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.hp, self.units = hp, 0

    def train(self) -> None:
        self.units += 1
        if self.units == self.hp.get("exits_at"):
            os._exit(1)

    def evaluate(self) -> dict[str, Any]:
        return {"accuracy": float(self.units)}

    def save(self, path: Path) -> None:
        path.write_text(f"saved {self.units}")

    def copied_state(self, may_take: Callable[[int], bool]) -> Callable[[Path], None] | None:
        gate, units = self.hp.get("gate"), self.units
        if not may_take(2_000_000):
            return None
        refusals = [errno.ENOSPC] * self.hp.get("refusals", 0)

        def write(path: Path) -> None:
            if refusals:
                raise OSError(refusals.pop(), "full")
            if gate is not None and Path(gate).read_text() != "write":
                raise ValueError("cannot be written")
            path.write_text(f"copied {units}")

        return write

    def load(self, path: Path) -> None:
        self.units = int(path.read_text().split()[1])


class CopiedLane(Copied):
    """The same, in a pack."""

    @classmethod
    def train_pack(cls, trainers: Sequence[CopiedLane]) -> None:
        for trainer in trainers:
            trainer.train()
