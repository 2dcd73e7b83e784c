"""The refusals of programs that cannot run on workers, before one starts, with the line to write instead."""

from __future__ import annotations

from typing import Any

from asyncsearch.errors import UsageError

LOWEST, BEYOND = (0, 2, 7), (0, 4)
"""The versions of Hyperopt that are known: from the first on, below the second."""


def require_version(version: str) -> None:
    """Refuse a version of Hyperopt that is not known.

    Raises:
        UsageError: it is older or newer.
    """
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if not LOWEST <= numbers < BEYOND:
        raise UsageError(
            f"asyncsearch.hyperopt knows Hyperopt from 0.2.7 on, below 0.4, and {version} is installed: "
            "pip install 'asyncsearch[hyperopt]'."
        )


def require_trials(trials: Any) -> None:
    """Refuse trials that are kept elsewhere, or are none.

    Raises:
        UsageError: with what to write instead.
    """
    import hyperopt

    names = {kind.__name__ for kind in type(trials).__mro__}
    if "MongoTrials" in names:
        raise UsageError(
            "trials=MongoTrials(...) gives points to workers of its own, by a database. Here the workers need none: "
            "write trials=Trials(), and hyperopt.workers(store='studies/mine') where a search is to go on later."
        )
    if "IPythonTrials" in names:
        raise UsageError("trials=IPythonTrials(...) gives points to engines of IPython: write trials=Trials().")
    if not isinstance(trials, hyperopt.Trials):
        raise UsageError(f"trials={trials!r} are no trials of Hyperopt: write trials=Trials().")


def require_algo(algo: Any) -> None:
    """Refuse what is no search algorithm.

    Raises:
        UsageError: it cannot be called; the message has the function that was meant.
    """
    if callable(algo):
        return
    name = str(getattr(algo, "__name__", algo)).removeprefix("hyperopt.")
    if callable(getattr(algo, "suggest", None)):
        raise UsageError(f"algo={name} is a module: write algo={name}.suggest.")
    raise UsageError(f"algo={algo!r} cannot be called: write algo=tpe.suggest, rand.suggest or anneal.suggest.")


def require_max_evals(max_evals: Any) -> int:
    """Return the total number of points, checked.

    Raises:
        UsageError: it is no whole number.
    """
    import operator

    try:
        return operator.index(max_evals)
    except TypeError:
        if isinstance(max_evals, float) and max_evals.is_integer():
            return int(max_evals)  # ``1e3``
    raise UsageError(f"max_evals={max_evals!r} is no whole number: write max_evals=100.")
