"""How fast packs train, kept for studies of the same code: each begins with the times of the one before.

    packs/<code>/<structure and device>.json      in the folder that studies share

Times are kept by the code of the trainable, the structure of a training (its hyper-parameters that are no floats, the
batch size among them) and the device. They decide how many trainings are packed, and no result.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Protocol

import msgspec

from asyncsearch.engine.sizing.packs import packs_measured
from asyncsearch.engine.state import StudyState
from asyncsearch.events import PackMeasured, PackSeconds, PacksTimed
from asyncsearch.shared.files import SharedFiles, Written

_log = logging.getLogger(__name__)


class PackExchange:
    """One driver's part. Its methods are called in the driver's thread; another one writes."""

    def __init__(self, state: StudyState, places: Sequence[PackTimes], files: Executor) -> None:
        self._state, self._places, self._files = state, places, files

    def known_on(self, device: str) -> list[PacksTimed]:
        """Return the times of others on the device of a worker that attaches."""
        return [timed for place in self._places for timed in place.known_on(device)] if device else []

    def note(self, event: PackMeasured) -> None:
        """Keep a pack's measurements, which the engine has learned."""
        measured = packs_measured(self._state, event.lease) if event.seconds else None
        if measured is None or not measured[1].device:
            return
        group, known = measured
        seconds = tuple(PackSeconds(*one) for one in sorted(known.seconds.items()))
        timed = PacksTimed(group, seconds, known.device, self._state.config.study, known.fits)
        for place in self._places:
            self._files.submit(self._keep, place, timed)

    def _keep(self, place: PackTimes, timed: PacksTimed) -> None:
        try:
            place.keep(timed)
        except Exception as error:  # the search goes on without; the next study times again
            _log.warning("How fast packs train could not be kept for other studies: %s", error)


class PackTimes(Protocol):
    """A place that keeps times for studies of one code. Any thread may call its methods."""

    def known_on(self, device: str) -> Iterable[PacksTimed]:
        """Return the times of others on a device."""

    def keep(self, timed: PacksTimed) -> None:
        """Keep the times of this study."""


class TimesInProcess:
    """The times of studies that share the workers of one process's cluster, by their code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, dict[tuple[str, str], PacksTimed]] = {}

    def of_code(self, code: str) -> PackTimes:
        """Return the part of studies of one code."""
        with self._lock:
            return _TimesOfCode(self._lock, self._kept.setdefault(code, {}))


class _TimesOfCode(PackTimes):
    def __init__(self, lock: threading.Lock, kept: dict[tuple[str, str], PacksTimed]) -> None:
        self._lock, self._kept = lock, kept

    def known_on(self, device: str) -> Iterable[PacksTimed]:
        with self._lock:
            return [timed for timed in self._kept.values() if timed.device == device]

    def keep(self, timed: PacksTimed) -> None:
        with self._lock:
            self._kept[timed.group, timed.device] = timed


class KeptTimes(Written, frozen=True, kw_only=True):
    """The content of one file."""

    study: str
    structure: str
    device: str
    seconds: list[PackSeconds]
    fits: int | None = None

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{_digest(self.structure, self.device)}.json"


_KEPT = msgspec.json.Decoder(KeptTimes)


class TimesInFolder(PackTimes):
    """The times in a folder that studies share, as they were when the study began."""

    def __init__(self, files: SharedFiles, code: str) -> None:
        """Read the times of a code."""
        self._files, self._folder = files, f"packs/{code}"
        names = {name: files.read(f"{self._folder}/{name}", _KEPT) for name in files.store.list(self._folder)}
        self._known = [one for name, one in names.items() if one is not None and one.name == name]

    def known_on(self, device: str) -> Iterable[PacksTimed]:
        found = [one for one in self._known if one.device == device]
        return [PacksTimed(one.structure, tuple(one.seconds), device, one.study, one.fits) for one in found]

    def keep(self, timed: PacksTimed) -> None:
        kept = KeptTimes(
            study=timed.study,
            structure=timed.group,
            device=timed.device,
            seconds=[*timed.seconds],
            fits=timed.fits,
        )
        self._files.write(f"{self._folder}/{kept.name}", kept)


def code_key(trainable: str, parts: Mapping[str, str], defaults: Mapping[str, object]) -> str:
    """Return the key of a trainable's code and constants. Empty if the code is not known, so nothing is kept.

    Args:
        trainable: its name.
        parts: name -> digest of its code or value.
        defaults: values of parameters that the study declares.
    """
    text = [f"{name}={value!r}" for values in (parts, defaults) for name, value in sorted(values.items())]
    return _digest(trainable, *text) if parts else ""


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
