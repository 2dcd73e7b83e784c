"""The facts of a search of Hyperopt in the journal, and the documents that they tell.

Each fact is one JSON object of one trial: ``begun`` with the document of a point, or ``ended`` with its result. A point
that has begun and not ended was lost with its driver.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple

from hyperopt.base import JOB_STATE_CANCEL

from asyncsearch.events import Consulted
from asyncsearch.hyperopt.drawn_points import Document
from asyncsearch.programs.pickles import pickled

MOST_KEPT_BYTES = 2**16
"""Values of a result whose pickles are larger are not kept in the journal, which is read as a whole."""


class EarlierPoints(NamedTuple):
    """The points that earlier processes have found."""

    documents: list[Document]
    attachments: dict[str, Any]
    draws: int
    """How often algo was called, which is how many seeds it got."""


def begun(document: Document, draws: int) -> dict[str, Any]:
    """A point was given to a worker; ``draws``: how often algo was called for it."""
    point = {label: str(values[0]) for label, values in document["misc"]["vals"].items() if len(values) == 1}
    return {"begun": document["tid"], **{f"point {label}": value for label, value in point.items()}} | {
        "document": [_text(document)],
        "draws": draws,
    }


def ended(document: Document, attachments: dict[str, Any]) -> dict[str, Any]:
    """A document has come to its end."""
    result = document["result"]
    loss = {"loss": str(result["loss"])} if "loss" in result else {}
    return {
        "ended": result.get("status", ""),
        **loss,
        "left_out": [name for name, value in result.items() if not _is_kept(value)],
        "document": [_text({**document, "result": _kept(result)}), _text(_kept(attachments))],
    }


def _kept(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if _is_kept(value)}


def _is_kept(value: Any) -> bool:
    try:
        return len(pickled(value)) <= MOST_KEPT_BYTES
    except Exception:  # in threads, where nothing needs to be sent
        return False


def _text(value: Any) -> str:
    return base64.b64encode(pickled(value)).decode()


def _value(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))  # noqa: S301  # the study's own file, as its pickled trainable is


def found_in(facts: Iterable[Consulted]) -> EarlierPoints:
    """Return the documents of facts, in the order of their numbers; those that were lost are cancelled."""
    documents: dict[Any, Document] = {}
    attachments: dict[str, Any] = {}
    draws = 0
    for event in facts:
        match event.facts:
            case {"begun": _, "document": [text], "draws": number}:
                draws += number
                document = _value(text)
                document["state"], document["misc"]["error"] = JOB_STATE_CANCEL, ("cancelled", "its driver has ended")
                documents[document["tid"]] = document
            case {"ended": _, "document": [text, attached]}:
                document = _value(text)
                documents[document["tid"]] = document
                kept = _value(attached)
                attachments.update({f"ATTACH::{document['tid']}::{name}": value for name, value in kept.items()})
            case _:
                pass
    return EarlierPoints([documents[tid] for tid in sorted(documents)], attachments, draws)
