"""``Trials`` and ``SparkTrials``: Hyperopt's own, whose points are evaluated on asyncsearch's workers."""

from __future__ import annotations

from typing import Any

import hyperopt
from hyperopt.base import validate_loss_threshold, validate_timeout

from asyncsearch.arguments import integer_of
from asyncsearch.hyperopt.minimize import fmin


class _OnWorkers:
    """The common part of both."""

    def fmin(self, fn: Any, space: Any, algo: Any = None, max_evals: Any = None, **options: Any) -> Any:
        """Minimize a function; see ``asyncsearch.hyperopt.fmin``."""
        return fmin(fn, space, algo, max_evals, trials=self, **{**options, "allow_trials_fmin": False})


class Trials(_OnWorkers, hyperopt.Trials):  # type: ignore[misc]  # not typed here
    """Trials of Hyperopt. The first exception of an objective ends a search."""


class SparkTrials(_OnWorkers, hyperopt.SparkTrials):  # type: ignore[misc]  # not typed here
    """Trials of Hyperopt on Spark. After the exception of an objective the search goes on."""

    def __init__(
        self,
        parallelism: int | None = None,
        timeout: float | None = None,
        loss_threshold: float | None = None,
        spark_session: Any = None,
        resource_profile: Any = None,
    ) -> None:
        """Begin without trials; a session is used once there is something to evaluate.

        Args:
            parallelism: how many points are evaluated at a time. None means one for each slot of the cluster.
            timeout: seconds after which running points are cancelled.
            loss_threshold: a loss below which the search ends.
            spark_session: the session to use. None means the active one, else a new one.
            resource_profile: refused, since workers keep their slots.

        Raises:
            UsageError: a resource profile was given.
        """
        hyperopt.Trials.__init__(self, exp_key=None, refresh=False)
        if parallelism is not None:
            parallelism = integer_of("SparkTrials: parallelism", parallelism)
        validate_timeout(timeout)
        validate_loss_threshold(loss_threshold)
        if resource_profile is not None:
            from asyncsearch.errors import UsageError

            raise UsageError(
                "SparkTrials(resource_profile=...) has no effect on workers that stay: leave it out, and give the "
                "session the resources of each executor, as spark.executor.cores."
            )
        self.parallelism = parallelism if parallelism is not None and parallelism > 0 else None
        self.user_specified_parallelism = parallelism
        self.timeout, self.loss_threshold = timeout, loss_threshold
        self._session = spark_session
        self._fmin_cancelled, self._fmin_cancelled_reason = False, None
        self.refresh()

    def trial_attachments(self, trial: Any) -> Any:
        return hyperopt.Trials.trial_attachments(self, trial)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}  # it is of this process
