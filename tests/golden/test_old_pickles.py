"""What bundles of released versions name is found under its present name."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from asyncsearch import Trainer, old_pickles
from asyncsearch.space import parameters
from asyncsearch.study.kept.definition import StudyDefinition

BUNDLES = sorted((Path(__file__).parent / "stores").glob("*/*/*/bundle.bin"))


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: "-".join(path.parts[-4:-1]))
def test_every_name_in_a_released_bundle_is_found(bundle: Path) -> None:
    data = bundle.read_bytes()
    definition = old_pickles.loads(data.partition(b"\n")[2] if data.startswith(b"Python ") else data)
    assert isinstance(definition, StudyDefinition), "a name that is not found: add a line to asyncsearch/old_pickles.py"
    assert callable(old_pickles.loads(definition.trainable))


def test_there_are_bundles() -> None:
    assert len(BUNDLES) >= 10


def test_every_line_of_the_table_leads_to_something() -> None:
    pytest.importorskip("torch")  # modules of packs are imported with it
    for old, module in old_pickles.MODULES.items():
        if old.partition(".")[0] != "trainers":
            importlib.import_module(f"asyncsearch.{module}")
    for old, place in old_pickles.CLASSES.items():
        module, _, name = place.rpartition(".")
        assert hasattr(importlib.import_module(f"asyncsearch.{module}"), name), f"{old} leads to {place}"


def named(module: str, name: str) -> bytes:
    """Return a pickle of a name."""
    return (
        b"\x80\x04"
        + pickle.SHORT_BINUNICODE
        + bytes([len(module)])
        + module.encode()
        + (pickle.SHORT_BINUNICODE + bytes([len(name)]) + name.encode() + pickle.STACK_GLOBAL + pickle.STOP)
    )


def test_old_pickles_lead_to_present_ones_and_other_names_to_themselves() -> None:
    assert old_pickles.loads(named("asyncsearch.definition", "Plan")) is StudyDefinition
    assert old_pickles.loads(named("asyncsearch.definition", "Plan.__eq__")) == StudyDefinition.__eq__
    assert old_pickles.loads(named("asyncsearch.space.nodes", "Leaf")) is parameters.Leaf
    assert old_pickles.loads(named("asyncsearch.trainable", "Trainer")) is Trainer
    assert old_pickles.loads(named("pathlib", "Path")) is Path


class Mention:
    """Pickled as a function of cloudpickle's is that mentions a module."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.cloudpickle.subimport, (self.module,)


@pytest.mark.parametrize(
    ("old", "new"),
    [("asyncsearch.sequences.own", "asyncsearch.sequences.custom_sequences"), ("json.decoder", "json.decoder")],
)
def test_a_module_that_a_trainable_mentions_is_imported_by_its_new_name(old: str, new: str) -> None:
    assert old_pickles.loads(pickle.dumps(Mention(old))).__name__ == new


def test_a_module_that_never_was_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"asyncsearch\.nowhere"):
        old_pickles.loads(pickle.dumps(Mention("asyncsearch.nowhere")))
