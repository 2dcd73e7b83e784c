"""The search in a task of the cluster: sent there by way of the store, and run there as it is anywhere."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from asyncsearch.driver.interrupts import Interrupts
from asyncsearch.errors import AsyncSearchError
from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.launch.remote.launcher import MeetingLauncher
from asyncsearch.launch.remote.meeting import FOLDER
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.old_pickles import loads
from asyncsearch.store.base_store import Store
from asyncsearch.store.patience import waiting
from asyncsearch.study.kept.definition import Code, StudyDefinition
from asyncsearch.study.kept.definition import pickled as pickled_definition
from asyncsearch.study.kept.warm_start import WarmStart
from asyncsearch.study.remote.board import BoardDisplay, Ending
from asyncsearch.study.runnable import RunnableStudy

NOT_THERE = "NotThere"
"""Kind of the end of a driver whose task does not see what the client has written into the store."""


class SentStudy(msgspec.Struct, frozen=True, kw_only=True):
    """A study as it is sent, without keys of stores."""

    definition: bytes
    code: Code
    warm: WarmStart
    resume: bool
    could_pack: bool


class Order(NamedTuple):
    """The task of one driver."""

    attempt: str
    """Names it."""
    num_trials: int | None
    timeout_s: float | None
    found: Preflight
    logs: bool
    is_shown: bool
    is_next: bool
    """Whether it goes on with what another driver of this run has begun."""


ENDING = msgspec.json.Decoder(Ending)


class SentName(NamedTuple):
    """The name of a sent study in its store."""

    name: str
    sha256: str


def send(study: RunnableStudy, store: Store) -> SentName:
    """Write a study into its store, for the tasks of its drivers."""
    sent = SentStudy(
        definition=pickled_definition(study.definition),
        code=study.code,
        warm=study.warm,
        resume=study.resume,
        could_pack=study.could_pack,
    )
    content = dumps(sent)
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{FOLDER}/study-{sha256[:16]}.bin"
    store.write(name, content)
    return SentName(name, sha256)


def driver(store: Store, sent: SentName, order: Order) -> bytes:
    """Return the pickled function of a driver's task, which takes the address of its machine."""
    return dumps(_Drive(store, sent, order))


class _Drive:
    """The function of a driver's task; it returns an ``Ending`` as JSON."""

    def __init__(self, store: Store, sent: SentName, order: Order) -> None:
        self._store, self._sent, self._order = store, sent, order

    def __call__(self, host: str) -> str:
        return msgspec.json.encode(self._run(host)).decode()

    def _run(self, host: str) -> Ending:
        store, order = self._store, self._order
        content = store.read(self._sent.name)
        if content is None or hashlib.sha256(content).hexdigest() != self._sent.sha256:
            return Ending(NOT_THERE, host)
        interrupts = Interrupts()
        board = BoardDisplay(store, order.attempt, logs=order.logs, is_shown=order.is_shown, stop=interrupts.add)
        ending = None
        try:
            found = msgspec.structs.replace(order.found, host=host, is_remote=False, warnings=())
            study = _received(content, store, MeetingLauncher(store, found, order.attempt), is_next=order.is_next)
            with waiting(study.definition.settings.store_timeout_s, lambda words: board.warn([words]), store):
                study.run(order.num_trials, None, order.timeout_s, board, interrupts=interrupts)
            ending = Ending()
        except KeyboardInterrupt:
            ending = Ending(is_interrupted=True)
        except AsyncSearchError as error:
            ending = Ending(type(error).__name__, str(error))
        finally:
            board.end(ending)
        return ending


def _received(content: bytes, store: Store, launcher: MeetingLauncher, *, is_next: bool) -> RunnableStudy:
    # Written by the client, whose closure has its checksum.
    sent: SentStudy = loads(content)
    definition: StudyDefinition = loads(sent.definition.partition(b"\n")[2])
    shared = None if definition.shared is None else definition.shared.with_keys_of(store)
    return RunnableStudy(
        store=store,
        definition=msgspec.structs.replace(definition, shared=shared),
        code=sent.code,
        warm=sent.warm,
        resume=sent.resume or is_next,
        backend=launcher,
        could_pack=sent.could_pack,
    )
