"""What a launch carries itself, and what is broadcast once for all launches of a run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
import pytest

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import ClusterError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import run_agent
from asyncsearch.launch.spark import broadcast
from asyncsearch.launch.spark.broadcast import SentConfig, SharedPart
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.supervisor import Supervisor
from asyncsearch.launch.spark.task import TaskMode, task
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.store.far.store import FsspecStore
from tests.launch.tools import PATIENCE_S, TOKEN, Ends, config_for
from tests.spark.test_supervisor import FakeSpark

MOST_CLOSURE_BYTES = 100_000
BUNDLE = bytes(8_000_000)


class FakeBroadcast:
    """Its content is on the executors."""

    def __init__(self, held: list[bytes | None], number: int) -> None:
        self._held, self._number = held, number

    def __reduce__(self) -> tuple[Any, ...]:
        return _fetched, (self._number,)

    @property
    def value(self) -> bytes | None:
        return self._held[self._number]

    def destroy(self) -> None:
        self._held[self._number] = None


def _fetched(number: int) -> FakeBroadcast:
    return FakeBroadcast(BroadcastingSpark.held, number)


class BroadcastingSpark(FakeSpark):
    held: ClassVar[list[bytes | None]] = []

    def __init__(self) -> None:
        super().__init__()
        self.held.clear()

    def broadcast(self, data: bytes) -> FakeBroadcast:
        self.held.append(data)
        return FakeBroadcast(self.held, len(self.held) - 1)


def launches(folder: Path, bundle: bytes) -> list[WorkerConfig]:
    one = config_for(folder, bundle)
    return [msgspec.structs.replace(one, worker=WorkerId(n), epoch=n + 1, gpus=(str(n),)) for n in range(4)]


def shared(spark: FakeSpark) -> SharedPart:
    return SharedPart(cast("Spark", spark))


def test_a_large_bundle_goes_out_once_and_in_no_launch(tmp_path: Path) -> None:
    spark = BroadcastingSpark()
    part = shared(spark)
    for config in launches(tmp_path, BUNDLE):
        closure = dumps(task(run_agent, part.without(config), TaskMode.PLAIN))
        assert len(closure) <= MOST_CLOSURE_BYTES
        sent = pickle.loads(closure).args[1]
        assert isinstance(sent, SentConfig)
        received = sent.received()
        assert msgspec.structs.replace(received, store=config.store) == config
    assert len(spark.held) == 1


def test_credentials_are_in_no_broadcast(tmp_path: Path) -> None:
    spark = BroadcastingSpark()
    store = FsspecStore("s3://studies/digits", {"key": "name-of-key", "secret": "key-of-store"})
    config = msgspec.structs.replace(config_for(tmp_path, BUNDLE), store=store, dirs=store)
    sent = shared(spark).without(config)
    [content] = spark.held
    assert content is not None
    for secret in (TOKEN, "name-of-key", "key-of-store"):
        assert secret.encode() not in content
        assert secret.encode() in dumps(sent)


def test_a_field_that_has_changed_since_goes_with_its_launch(tmp_path: Path) -> None:
    part = shared(BroadcastingSpark())
    first, later = config_for(tmp_path, BUNDLE), config_for(tmp_path, BUNDLE)
    part.without(first)
    sent = part.without(msgspec.structs.replace(later, cpu_threads=3))
    assert isinstance(sent, SentConfig)
    assert sent.received().cpu_threads == 3


def test_a_small_bundle_takes_no_broadcast(tmp_path: Path) -> None:
    spark = BroadcastingSpark()
    config = config_for(tmp_path, bytes(10_000))
    assert shared(spark).without(config) is config
    assert not spark.held


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_run_destroys_its_broadcast_at_its_end(is_cancelled: bool, tmp_path: Path) -> None:
    spark, ends = BroadcastingSpark(), Ends()
    if not is_cancelled:
        spark.cancelled.set()
    supervisor = Supervisor(
        cast("Spark", spark),
        agent=run_agent,
        mode=TaskMode.PLAIN,
        study="digits",
        tag="tag",
        start_timeout_s=PATIENCE_S,
        ended=ends,
        spares={},
    )
    supervisor.start()
    supervisor.launch((WorkerId(0), 1), config_for(tmp_path, BUNDLE))
    if not is_cancelled:
        ends.next()
    supervisor.stop(0.0)
    assert spark.held in ([None], []), "it is made in the job's thread, which a cancellation may come before"


class ConnectedSpark(FakeSpark):
    has_broadcasts = False


def test_without_broadcasts_a_large_bundle_is_in_the_store_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "MOST_SENT_BYTES", 1_000)
    shared = SharedPart(cast("Spark", ConnectedSpark()))
    small, large = config_for(tmp_path, bytes(1_000)), config_for(tmp_path, bytes(1_001))
    assert received(shared.without(small)).bundle == small.bundle
    carried = shared.without(large)
    assert len(pickle.dumps(carried)) < 1_000 + len(pickle.dumps(shared.without(config_for(tmp_path))))
    assert received(carried).bundle == large.bundle
    [stored] = tmp_path.glob(f"{broadcast.STORED}*")
    stored.write_bytes(b"of another")
    with pytest.raises(ClusterError, match=r"is not the trainable that the driver has written"):
        received(carried)
    shared.destroy()
    assert not stored.exists()


def received(carried: Any) -> WorkerConfig:
    found: WorkerConfig = pickle.loads(pickle.dumps(carried)).received()
    return found
