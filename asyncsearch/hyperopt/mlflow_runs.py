"""Runs of MLflow, one for each point, below the run that is active where ``fmin`` is called; as on Databricks.

Nothing is done where the program has not imported MLflow, or has no active run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import hyperopt
from hyperopt.base import JOB_STATE_CANCEL, JOB_STATE_DONE

from asyncsearch.hyperopt.drawn_points import Document

Child = dict[str, str]
"""What a worker needs to log to the run of its point: variables of the environment, by name."""


class ChildRuns:
    """The runs of the points of one ``fmin``."""

    def __init__(self) -> None:
        mlflow: Any = sys.modules.get("mlflow")
        self._parent = mlflow.active_run() if hasattr(mlflow, "active_run") else None
        self._runs: dict[Any, str] = {}
        if self._parent is not None:
            self._uri = mlflow.get_tracking_uri()
            self._client = mlflow.MlflowClient()

    def begin(self, document: Document) -> Child:
        """Begin the run of a point."""
        if self._parent is None:
            return {}
        parent = self._parent.info
        tags = {"mlflow.parentRunId": parent.run_id, "mlflow.runName": f"trial-{document['tid']}"}
        run = self._client.create_run(parent.experiment_id, tags=tags).info.run_id
        self._runs[document["tid"]] = run
        for label, values in document["misc"]["vals"].items():
            if values:
                self._client.log_param(run, label, values[0])
        return {"MLFLOW_RUN_ID": run, "MLFLOW_TRACKING_URI": self._uri}

    def end(self, document: Document) -> None:
        """End the run of a point, with its loss."""
        run = self._runs.pop(document["tid"], None)
        if run is None:
            return
        result = document["result"]
        if document["state"] == JOB_STATE_DONE and result.get("loss") is not None:
            self._client.log_metric(run, "loss", result["loss"])
        is_ok = document["state"] == JOB_STATE_DONE and result.get("status") == hyperopt.STATUS_OK
        killed = "KILLED" if document["state"] == JOB_STATE_CANCEL else "FAILED"
        self._client.set_terminated(run, "FINISHED" if is_ok else killed)


@contextlib.contextmanager
def in_child(child: Child) -> Iterator[None]:
    """Let what an objective logs without a run of its own go to the run of its point."""
    before = {name: os.environ.get(name) for name in child}
    os.environ.update(child)
    try:
        yield
    finally:
        mlflow: Any = sys.modules.get("mlflow") if child else None
        if mlflow is not None and mlflow.active_run() is not None:
            mlflow.end_run()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
