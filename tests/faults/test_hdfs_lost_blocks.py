"""On a real HDFS: files whose content no DataNode has any more, though the NameNode lists them."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.errors import CheckpointError, ContentAwayError, StoreError, may_pass
from asyncsearch.events import TrainingEnded
from asyncsearch.journal.opening import read_records
from asyncsearch.store import open_store
from asyncsearch.store.hdfs.files import HdfsFiles
from asyncsearch.store.hdfs.store import HdfsStore
from asyncsearch.testing.store_checkpoints import load, save
from tests.faults.accounts import say, wasted
from tests.faults.damages import make, read, require_same_or_refused
from tests.faults.hdfs_runs import PATIENCE_S, Search
from tests.shares import takes_long
from tests.store.hdfs_cluster import hdfs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
WORDS = "no DataNode has the file's content now"


@takes_long
def test_a_checkpoint_with_lost_blocks_is_refused_and_its_trial_restarts(tmp_path: Path) -> None:
    search = Search(tmp_path)
    assert search.start(kill_at=15).wait(PATIENCE_S) == -signal.SIGKILL
    store = open_store(search.url)
    search.cluster.lose_content(f"{search.cluster.path(search.url)}/checkpoints")
    with pytest.raises(ContentAwayError, match=WORDS), store.fetch(store.checkpoints()[0]):
        pass
    search.finish(gone_after_s=2.0)
    study = search.require_whole(is_trained_once=False)
    ends = [record.event for record in read_records(study.store) if isinstance(record.event, TrainingEnded)]
    refused = [end.error for end in ends if end.error_kind == "checkpoint"]
    assert refused
    assert all("its content was lost (no DataNode has had it for 2 s" in words for words in refused), refused
    say(f"on HDFS, blocks of {len(refused)} checkpoints gone: {wasted(study)} units of training wasted")


def test_lost_content_is_damage_once_waited_for_while_other_writes_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    cluster = hdfs()
    store = HdfsStore(cluster.new())
    save(store, model=b"model")
    cluster.lose_content(f"{cluster.path(store.url)}/checkpoints")
    with pytest.raises(ContentAwayError, match=WORDS) as away:
        load(store)
    assert may_pass(away.value)
    impatient = HdfsStore(store.url, gone_after_s=0.0)
    with pytest.raises(CheckpointError, match="its content was lost"):
        load(impatient)
    with monkeypatch.context() as patch:
        patch.setattr(HdfsFiles, "_temporary", lambda self, data: refuse())
        with pytest.raises(StoreError, match="safe mode") as waits:
            load(impatient)
    assert may_pass(waits.value)


def refuse() -> str:
    raise StoreError("The NameNode is in safe mode.")


def test_a_journal_with_lost_blocks_is_refused_in_words_never_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("asyncsearch.store.patience.CONTENT_S", 1.0)
    cluster = hdfs()
    url = cluster.new()
    for total in (1, 2):
        make(url, resume=True).run(total, display="none")
    whole, store = read(url), open_store(url)
    store.remove_tree("snapshots")
    for name in reversed(store.journal_segments()):
        cluster.lose_content(f"{cluster.path(url)}/journal/{name}")
        assert require_same_or_refused(url, whole)
        with pytest.raises(StoreError, match=WORDS):
            Study.resume(url).run(3, display="none")
