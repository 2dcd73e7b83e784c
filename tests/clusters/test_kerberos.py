"""An HDFS that asks for tickets of Kerberos: a search with a ticket, and the words for those who have none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from asyncsearch import Study
from asyncsearch.store import open_store
from tests.clusters.tools import SEARCH, SMALL, Machine, Submitted, require_whole
from tests.faults.accounts import losses, require_accounted, tell, wasted
from tests.system.tools import Running, make_study
from tests.system.trained import Gate, make_trainable

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
OPEN = """
import sys
from asyncsearch.errors import StoreError
from asyncsearch.store import open_store
try:
    open_store(sys.argv[1]).prepare()
except StoreError as error:
    print(error)
else:
    print("it was let in")
"""


TOKENS_LAST_S = 60.0
"""How long tokens are valid that nobody renews, in ``scripts/_hdfs.py``."""


class Secure(NamedTuple):
    """The two ways to one HDFS."""

    machine: Machine
    hdfs: str
    webhdfs: str


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    for program in ("krb5kdc", "kadmin.local", "kinit"):
        if shutil.which(program, path=SBIN) is None:
            pytest.skip(f"there is no {program}: apt-get install krb5-kdc krb5-admin-server krb5-user")
    folder = tmp_path_factory.mktemp("kerberos")
    machine = Machine(folder)
    with pytest.MonkeyPatch.context() as patch:
        try:
            url = machine.script("hdfs.sh", "start", 1, "--kerberos")
            web = machine.script("hdfs.sh", "status").rpartition("//")[2]
            patch.setenv("HADOOP_CONF_DIR", str(folder / "hdfs" / "conf"))
            patch.setenv("KRB5_CONFIG", str(folder / "hdfs" / "kerberos" / "krb5.conf"))
            patch.setenv("KRB5CCNAME", f"FILE:{folder / 'ticket-of-ann'}")
            keys = folder / "hdfs" / "kerberos" / "ann.keytab"
            subprocess.run(["kinit", "-k", "-t", str(keys), "ann@ASYNCSEARCH.TEST"], check=True, capture_output=True)
            yield Secure(machine, url, f"webhdfs://{web}")
        finally:
            machine.script("hdfs.sh", "stop", "--remove")


def without_ticket(url: str, tmp_path: Path) -> str:
    """Return the words for a process without a ticket."""
    environment = os.environ | {"KRB5CCNAME": f"FILE:{tmp_path / 'none'}"}
    command = [sys.executable, "-c", OPEN, url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_search_with_a_ticket_ends_and_its_files_are_of_who_has_it(
    secure: Secure, tmp_path: Path, undisturbed_processes: Study
) -> None:
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), f"{secure.hdfs}/studies/kerberos")
    running = Running(study)
    gate.pids()
    gate.open()
    running.wait()
    require_accounted(study, range(1, 10), [1, 3, 9])
    assert losses(study) == []
    assert wasted(study) == 0
    assert len(Study.open(f"{secure.hdfs}/studies/kerberos").trials) == 9
    tell("HDFS with Kerberos", study, undisturbed_processes)
    import hdfs_native

    assert hdfs_native.Client(secure.hdfs).get_file_info("/studies/kerberos/study.json").owner == "ann"


def test_who_has_no_ticket_is_refused_in_words(secure: Secure, tmp_path: Path) -> None:
    said = without_ticket(f"{secure.hdfs}/studies/none", tmp_path)
    assert "let in" not in said
    assert said.startswith("Cannot "), said
    assert "klist" in said


def test_the_same_holds_over_http(secure: Secure, tmp_path: Path) -> None:
    pytest.importorskip("requests_kerberos", reason="requests-kerberos is not installed: it is the extra kerberos")
    store = open_store(f"{secure.webhdfs}/studies/over-http")
    store.prepare()
    store.write("study.json", b"{}")
    with store.lock():
        segment = store.open_segment()
        segment.append(b"a\n")
        segment.append(b"b\n")
    assert list(store.read_segment(segment.name)) == [b"a\n", b"b\n"]
    said = without_ticket(f"{secure.webhdfs}/studies/none", tmp_path)
    assert "let in" not in said
    assert said.startswith("Cannot "), said


@pytest.fixture
def without_tickets(secure: Secure, tmp_path: Path) -> Iterator[Machine]:
    """A standalone cluster whose executors have neither a ticket nor the configuration of Hadoop."""
    machine = secure.machine
    machine.pack()
    machine.set(KRB5CCNAME=f"FILE:{tmp_path / 'none'}")
    machine.script("spark_cluster.sh", "start", 1, "--cores", 2)
    machine.set(**{name: os.environ[name] for name in ("KRB5CCNAME", "KRB5_CONFIG", "HADOOP_CONF_DIR")})
    yield machine
    machine.script("spark_cluster.sh", "stop", "--remove")


def test_executors_without_a_ticket_use_the_drivers_tokens_old_and_new(
    secure: Secure, without_tickets: Machine, tmp_path: Path, undisturbed_processes: Study
) -> None:
    store = f"{secure.hdfs}/studies/tokens"
    options = (*SMALL, "--driver-java-options", f"-Djava.security.krb5.conf={os.environ['KRB5_CONFIG']}")
    with without_tickets.submit("submit_standalone.sh", tmp_path, *options, SEARCH, tmp_path, store) as search:
        search.until("two trials at once", lambda: len(search.waiting()) == 2)
        require_no_ticket(search)
        # Nobody has renewed the first tokens: a connection that is made from now on needs others.
        asked_s = time.monotonic()
        search.until("tokens that have run out", lambda: time.monotonic() > asked_s + TOKENS_LAST_S)
        secure.machine.script("hdfs.sh", "kill-nn", 1)
        secure.machine.script("hdfs.sh", "start-nn", 1)
        search.open()
        assert "best: 1" in search.finish()
    study = require_whole(search, store)
    tell("standalone without tickets, the NameNode restarted", study, undisturbed_processes)


def require_no_ticket(search: Submitted) -> None:
    """The runners, and so the agents that started them, would find no ticket."""
    for _, process, _ in search.waiting():
        ticket = psutil.Process(process).environ()["KRB5CCNAME"].removeprefix("FILE:")
        assert not Path(ticket).exists()
