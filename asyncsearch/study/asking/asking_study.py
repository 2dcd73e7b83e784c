"""The calls of a study whose trials are evaluated elsewhere: ``ask`` and ``tell``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from asyncsearch.arguments import positive
from asyncsearch.checked_calls import answering
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, parse_trial
from asyncsearch.report.live.display import open_display
from asyncsearch.study.asking.asked_trial import AskedTrial, NextStep
from asyncsearch.study.asking.session import AskingSession
from asyncsearch.trial import Trial

if TYPE_CHECKING:
    from asyncsearch.study.runnable import RunnableStudy


def evaluated_elsewhere(trial: Any) -> None:
    """The trainable of a study whose trials no worker trains."""
    for _ in trial.epochs(state={"elsewhere": {}}):
        raise UsageError("The trials of this study are evaluated elsewhere: write study.ask() and trial.tell(value).")


def require_trained_here(trainable: object, name: str) -> None:
    """Refuse to train the trials of a study that are evaluated elsewhere.

    Raises:
        UsageError: they are.
    """
    if trainable is None or trainable is evaluated_elsewhere:
        raise UsageError(
            f"The trials of {name!r} are evaluated elsewhere: write trial = study.ask(), and trial.tell(value)."
        )


class Asking:
    """``ask`` and ``tell``, for a study that ``Study.to_ask`` has made."""

    name: str
    trainable: Any
    _runnable: RunnableStudy | None
    _session: AskingSession | None = None

    @answering("ask", "trial = study.ask()")
    def ask(self, num_trials: int | None = None) -> AskedTrial | None:
        """Return the next trial to evaluate, elsewhere: a promoted one, else a new one. None if there is none now.

        The first call opens the study, as long as this process lives or until ``close``; trials that were asked for
        before, and not told of to their ends, are in ``asked`` then.

        Args:
            num_trials: total number of trials, those of earlier processes included; it counts at the first call. None
                means until the searcher has no more proposals.

        Raises:
            UsageError: the study has a trainable, which ``run`` trains.
            StoreLockedError: another process has the study open.
        """
        return self._opened(None if num_trials is None else positive("num_trials", num_trials)).ask()

    def tell(
        self, trial: int | str | Trial | AskedTrial, value: Any = None, *, resource: int | None = None, **metrics: Any
    ) -> NextStep:
        """Tell a result of a trial that was asked for, by this process or an earlier one; see ``AskedTrial.tell``.

        Raises:
            UsageError: the trial is not being evaluated, or the result does not fit it.
        """
        number = trial.id if isinstance(trial, Trial | AskedTrial) else TrialId(parse_trial(str(trial)))
        return self._opened(None).tell(number, value, metrics, resource)

    def asked(self) -> list[AskedTrial]:
        """Return the trials that were asked for and are being evaluated, by number."""
        session = self._opened(None)
        return [session.asked[number] for number in sorted(session.asked)]

    def close(self) -> None:
        """Let another process open the study; what was asked for can be told there."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, num_trials: int | None) -> AskingSession:
        if self._session is None or self._session.is_closed:
            own = self._runnable
            if own is None:
                raise UsageError(f"{self.name!r} was opened to read its results: write Study.resume(...).ask().")
            if own.definition.trainable or getattr(self, "trainable", None) not in (None, evaluated_elsewhere):
                raise UsageError(
                    f"{self.name!r} has a trainable, and study.run() trains its trials. For trials that are evaluated "
                    "elsewhere write Study.to_ask(space=..., metric=..., mode=...)."
                )
            own.take_store(open_display("none"))
            self._session = AskingSession(own, num_trials)
        return self._session
