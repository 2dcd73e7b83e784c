"""The interface of a Spark session for a search, of either kind: a classic one or one of Spark Connect."""

from __future__ import annotations

import abc
import math
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from asyncsearch.launch.base_launcher import Tokens
from asyncsearch.launch.spark.job_ends import TAG
from asyncsearch.launch.spark.placement import Executor

T = TypeVar("T")

WAIT_LOGGED_AFTER_S = 10.0
"""Time of waiting for a free task slot after which a warning is logged."""


def new_tag(study: str) -> str:
    """Return a tag for the jobs of one run; Spark does not allow commas in it."""
    return f"{TAG}{study.replace(',', '_')}-{secrets.token_hex(4)}"


class AnySpark(abc.ABC):
    """A Spark session. What one kind cannot tell has the answer "unknown" here, which the other kind replaces."""

    has_broadcasts: bool = True
    """Whether bytes can be given to all executors at once."""
    refuses_barriers: bool = False
    """Whether its cluster has refused a barrier stage, although the settings that it tells allow them."""
    has_detached_tasks: bool = False
    """Whether its tasks go on for a while without this process, so that the driver is one where none reaches this."""

    @property
    @abc.abstractmethod
    def master(self) -> str:
        """Its cluster: ``local[2]``, ``yarn``; empty if it does not say."""

    @property
    def place(self) -> str:
        """The session, for people."""
        return f"Spark {self.master}"

    @property
    @abc.abstractmethod
    def version(self) -> str:
        """The version of Spark."""

    @property
    @abc.abstractmethod
    def is_local(self) -> bool:
        """Whether all executors are on this machine, with this one."""

    @property
    def runs_this_python(self) -> bool:
        """Whether its tasks run on this machine, in the environment in which asyncsearch runs here."""
        return False

    @property
    def hands_over(self) -> bool:
        """Whether a task that was begun early can be handed its configuration over a pipe of this machine."""
        return False

    @property
    def tells_departures(self) -> bool:
        """Whether it tells of executors that leave, or whose loss ends no job."""
        return False

    @abc.abstractmethod
    def conf(self, key: str, default: str = "") -> str:
        """Return a setting of the application."""

    @abc.abstractmethod
    def machine(self) -> str:
        """Return the name of this machine, for executors, where no setting has it."""

    def driver_conf(self, key: str) -> str:
        """Return a setting about the machine of this process, empty if it is not set."""
        return self.conf(key)

    def is_on(self, key: str) -> bool:
        """Return whether a setting is ``true``."""
        return self.conf(key).strip().lower() == "true"

    @property
    def is_one_process(self) -> bool:
        """Whether its tasks are threads of one Java process, the driver's: none is lost alone or run a second time."""
        return re.match(r"local(\[|$)", self.master) is not None

    @property
    def is_made_here(self) -> bool:
        """Whether the session was made for a run, and is stopped after it."""
        return False

    @property
    def has_dynamic_allocation(self) -> bool:
        """Whether executors come and go; Spark ignores the setting in local mode."""
        return self.is_on("spark.dynamicAllocation.enabled") and not self.is_one_process

    @property
    def cpus_per_task(self) -> int:
        """Cores of one task, from 1; half a core counts as one."""
        try:
            return max(1, math.ceil(Decimal(self.conf("spark.task.cpus", "1"))))
        except InvalidOperation:
            return 1

    @property
    @abc.abstractmethod
    def has_served(self) -> bool:
        """Whether workers ran in this session before, so that its Python processes have imported their packages."""

    @abc.abstractmethod
    def serves(self) -> None:
        """Note that a worker is launched here."""

    @property
    @abc.abstractmethod
    def examined(self) -> set[str]:
        """The names of the executors that were found fit for workers in this session."""

    def executors(self) -> Sequence[Executor] | None:
        """Return the executors that are there; None if it cannot tell."""
        return None

    def emptiest(self) -> str:
        """Return the place for the next worker; empty if any will do."""
        return ""

    @property
    def age_s(self) -> float:
        """Seconds since the application started; infinite if it does not tell."""
        return math.inf

    @property
    def tells_slots(self) -> bool:
        """Whether it says how many slots there are, so that too high a ``parallelism`` was refused."""
        return True

    @abc.abstractmethod
    def slots(self) -> int | None:
        """Return the number of tasks that the current executors can run at once; None if it does not tell."""

    @abc.abstractmethod
    def run(
        self,
        task: Callable[[Iterable[int]], Iterable[T]],
        tasks: int,
        *,
        tags: Sequence[str],
        description: str,
        is_barrier: bool,
        places: Sequence[str] = (),
        prepared: Callable[[], object] = lambda: None,
    ) -> list[T]:
        """Run a stage and return its tasks' results. Call it in a thread made by ``thread``: tags belong to threads.

        Args:
            task: the function of each task.
            tasks: how many.
            tags: of its job, by which it is cancelled.
            description: of its job, for people.
            is_barrier: whether Spark is to start all tasks at once, and none again.
            places: for each task the one that it prefers, of ``Executor.place``; empty for any.
            prepared: called once the task is pickled, when Spark needs little more of this process's time.
        """

    def asks_for_devices(self, per_task: float) -> bool:
        """Let later tasks ask for devices that executors have and tasks do not get by default; whether it can.

        Args:
            per_task: how many, or below 1 its share of one.
        """
        return False

    @abc.abstractmethod
    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag. The Python workers live up to five seconds longer."""

    @abc.abstractmethod
    def running(self) -> Set[str] | None:
        """Return the tags of workers' jobs whose task has found a slot, by one look; None if Spark cannot tell."""

    def tag_note(self, tag: str) -> bytes:
        """Return a note by which another process ends the jobs with a tag; empty if those end with this process."""
        return b""

    def end_tag_of(self, note: bytes) -> None:
        """Cancel jobs of another process's session of the same server, by its note."""

    def trouble(self) -> str:
        """Return why no job can begin or end now, by one look; empty if one can, or if that shows in the jobs."""
        return ""

    @property
    def is_gone(self) -> bool:
        """Whether nobody listens where Spark's driver was, by the look of ``trouble``: executors end with it."""
        return False

    def departures(self) -> Mapping[str, str]:
        """Return the tags of all workers' jobs whose executor leaves or is lost, and why, by one look."""
        return {}

    def broadcast(self, data: bytes) -> Any:
        """Give bytes to all executors that will ask for them, until ``destroy`` of the result."""
        raise NotImplementedError(f"{type(self).__name__} has no broadcasts")

    def tokens_for(self, url: str) -> Tokens | None:
        """Return delegation tokens for the store at a URL; None if workers need none, or there are none to be had."""
        return None

    @abc.abstractmethod
    def thread(self, target: Callable[[], None], name: str) -> Any:
        """Return a thread, not started, whose jobs have the properties of those of the thread that has joined."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the session; the last user to do so stops it, if it was made here."""
