"""Estimators of scikit-learn, which are saved as pickles."""

from __future__ import annotations

import pickle
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state.state_kinds import PickledState, StateKind, is_of


def find_sklearn(value: Any) -> StateKind | None:
    """Return the kind of an estimator."""
    is_estimator = is_of("sklearn.base", "BaseEstimator", value) and hasattr(value, "__dict__")
    return _ESTIMATOR if is_estimator else None


def _put(estimator: Any, saved: PickledState) -> None:
    # Read in the runner alone, and only where SavedState has compared the checksum and the folder is trusted.
    found = pickle.loads(saved.data)  # noqa: S301
    if type(found) is not type(estimator):
        raise UsageError(f"it is of type {type(estimator).__qualname__}, and {type(found).__qualname__} was saved")
    attributes = vars(estimator)
    attributes.clear()
    attributes.update(vars(found))


_ESTIMATOR = StateKind("estimator", lambda value: PickledState(pickle.dumps(value, protocol=5)), _put)
