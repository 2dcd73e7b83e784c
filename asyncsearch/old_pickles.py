"""Reads pickles of earlier versions, which name classes by the modules in which they were defined then.

A module or class that is moved or renamed gets a line here if pickles in stores may name it: the classes of a
definition (space, searcher, scheduler, stores, configuration), and public names, which trainables may reference.
"""

from __future__ import annotations

import importlib
import io
import pickle
from types import ModuleType
from typing import Any

MODULES = {
    "ablation.own_functions": "ablation.left_out",
    "definition": "study.kept.definition",
    "driver.settings": "driver.timeouts",
    "evaluating": "study.evaluate",
    "packing.primitives": "packing",
    "plan.autoscale": "sizing.autoscale",
    "plan.gangs": "sizing.gangs",
    "plan.pack_groups": "sizing.packing",
    "plan.pack_strategies": "sizing.pack_strategies",
    "plan.packing": "sizing.packing",
    "report.ablation.effects": "report.ablation",
    "report.ablation.table": "report.ablation",
    "report.plots": "report.plots.plots",
    "report.plots.incumbents": "report.plots.curves",
    "report.timeline.worker_spans": "report.timeline",
    "report.what_if": "report.what_if.worker_counts",
    "results": "study.results",
    "runner.main_module": "runner.process.sent_code",
    "runner.own_modules": "runner.process.sent_code",
    "runner.process.main_module": "runner.process.sent_code",
    "runner.process.own_modules": "runner.process.sent_code",
    "runner.process.sources": "runner.process.sent_code",
    "runner.rebuilt_values": "runner.process.rebuilt_values",
    "runner.sources": "runner.process.sent_code",
    "runner.spawned_children": "runner.process.spawned_children",
    "schedulers.base": "schedulers.base_scheduler",
    "searchers.base": "searchers.base_searcher",
    "searchers.sobol": "searchers.random",
    "sequences.base": "sequences.base_sequence",
    "sequences.change_points": "sequences.params",
    "sequences.courses": "sequences.params",
    "sequences.decoding": "sequences.params",
    "sequences.exact_arithmetic": "sequences.formulas",
    "sequences.flat_params": "sequences.params",
    "sequences.joined": "sequences.composition",
    "sequences.own": "sequences.custom_sequences",
    "sequences.periodic": "sequences.cycles",
    "sequences.picture": "sequences.svg",
    "sequences.undecided": "sequences.templates",
    "sequences.undecided_values": "sequences.templates",
    "simulate.chance": "simulate.options",
    "simulate.quadratic": "simulate.workloads",
    "simulate.random_faults": "simulate.options",
    "simulate.recorded": "simulate.recorded_workload",
    "simulate.searching": "simulate.simulated_search",
    "simulate.workers": "simulate.virtual_cluster",
    "sizing.pack_groups": "sizing.packing",
    "space.candidates": "space.constraints",
    "space.floats": "space.numbers",
    "space.integers": "space.numbers",
    "space.nodes": "space.parameters",
    "space.spacing": "space.numbers",
    "space.tree": "space.dotted_names",
    "space.values": "space.parameter_values",
    "store.appending_store": "store.far.store",
    "store.azure": "store.far.azure",
    "store.base": "store.base_store",
    "store.disk_checkpoints": "store.local.checkpoints",
    "store.disk_files": "store.local.files",
    "store.far.appending_store": "store.far.store",
    "store.far.fsspec_store": "store.far.store",
    "store.far_store": "store.far.store",
    "store.fsspec_store": "store.far.store",
    "store.local": "store.local.store",
    "store.remote": "store.far.remote",
    "store.shared": "shared.folder",
    "store.webhdfs.files": "store.webhdfs",
    "store.webhdfs.store": "store.webhdfs",
    "study": "study.study",
    "study.cluster": "study.several.cluster",
    "study.definition": "study.kept.definition",
    "study.options": "study.asked.options",
    "study.submission": "study.several.submission",
    "study.together": "study.several.together",
    "study.warm_start": "study.kept.warm_start",
    "together": "study.several.together",
    "trainable.pickled": "trainable.trainer",
    "trainers.base": "trainers.base_trainer",
    "trainers.keras": "trainers.keras.trainer",
    "trainers.torch": "trainers.torch.trainer",
    "worker.standalone": "runner.standalone",
}
"""Old name -> new name of modules, both without ``asyncsearch.`` before them."""

CLASSES = {
    "checking.proof.check": "checking.check",
    "definition.Plan": "study.kept.definition.StudyDefinition",
    "driver.loop.DriverSettings": "driver.timeouts.DriverSettings",
    "evaluating.One": "study.evaluate.SingleProposal",
    "evaluating.UpTo": "study.evaluate.TrainUpTo",
    "sequences.steps.Constant": "sequences.steps.ConstantSequence",
    "space.nodes.Node": "space.parameters.ParameterNode",
    "trainable._restored": "trainable.trainer._restored",
    "trial.Packed": "trial.CompactParams",
}
"""Old name -> new name of classes and functions that were themselves renamed, each with its module."""

_ROOT = "asyncsearch."


def loads(data: bytes) -> Any:
    """Unpickle data of this version or an earlier one; the data must come from a trusted source."""
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the object that a pickle names."""
        if name == "subimport" and module.startswith("cloudpickle."):
            return _imported
        if module.startswith(_ROOT):
            old = module.removeprefix(_ROOT)
            outer, dot, inner = name.partition(".")
            if f"{old}.{outer}" in CLASSES:
                module, _, outer = CLASSES[f"{old}.{outer}"].rpartition(".")
            else:
                module = MODULES.get(old, old)
            module, name = _ROOT + module, outer + dot + inner
        return super().find_class(module, name)


def _imported(name: str) -> ModuleType:
    """Import a module that a function mentions. An existing module takes precedence over an old one of its name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        new = MODULES.get(name.removeprefix(_ROOT))
        if new is None or not name.startswith(_ROOT):
            raise
        return importlib.import_module(_ROOT + new)
