"""How fast packs train, kept for studies of the same code: each begins with the times of the one before.

    packs/<code>/<structure and device>.json      in the folder that studies share

Times are kept by the code of the trainable, the structure of a training (its hyper-parameters that are no floats, the
batch size among them) and the device. They decide how many trainings are packed, and no result.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from asyncsearch.events import PackSeconds, PacksTimed
from asyncsearch.shared.files import SharedFiles, Written


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
