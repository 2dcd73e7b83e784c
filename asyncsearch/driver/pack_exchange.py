"""The times of packs that studies of one code share: those known before, and those that were measured here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor

from asyncsearch.engine.sizing.packs import packs_measured
from asyncsearch.engine.state import StudyState
from asyncsearch.events import PackMeasured, PackSeconds, PacksTimed
from asyncsearch.shared.pack_times import PackTimes

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
