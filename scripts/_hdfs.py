"""A real HDFS on this machine, without containers and without root. See scripts/hdfs.sh."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from _hadoop import class_path, java, run_java, send, state, user, write_settings
from _kerberos import HOST, Realm
from _servers import ClusterError, Servers, say
from _tls import Certificates

_SERVER = "org.apache.hadoop.hdfs.server"
_TOOLS = "org.apache.hadoop.hdfs.tools"
SERVICE = "asyncsearch"
"""Name service of a cluster with two NameNodes."""
TOKENS_LAST_S = 60
"""How long delegation tokens are valid that nobody renews: so short that tests can wait for it."""


class Hdfs:
    """One HDFS, in one folder. It keeps its files, its ports and its kind when it is stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.servers = Servers(folder)
        self.conf = folder / "conf"
        self._folder = folder
        self._kind_path = folder / "kind.json"
        self._realm = Realm(self.servers)
        self.certificates = Certificates(folder / "tls")
        self._kind: dict[str, Any] = json.loads(self._kind_path.read_text()) if self._kind_path.exists() else {}

    @property
    def is_ha(self) -> bool:
        """Whether there are two NameNodes, one of them on standby."""
        return bool(self._kind["ha"])

    @property
    def has_kerberos(self) -> bool:
        """Whether only those with a ticket get in."""
        return bool(self._kind.get("kerberos"))

    @property
    def has_tls(self) -> bool:
        """Whether it also answers by HTTPS."""
        return bool(self._kind.get("tls"))

    @property
    def url(self) -> str:
        return f"hdfs://{SERVICE}" if self.is_ha else f"hdfs://{self._host}:{self._ports['rpc-1']}"

    @property
    def _host(self) -> str:
        return HOST if self.has_kerberos else "127.0.0.1"

    @property
    def _ports(self) -> dict[str, int]:
        return self.servers.ports(*(f"{kind}-{number}" for number in self._namenodes for kind in self._protocols))

    @property
    def _protocols(self) -> tuple[str, ...]:
        return ("rpc", "http", "https") if self.has_tls else ("rpc", "http")

    @property
    def _namenodes(self) -> tuple[int, ...]:
        return (1, 2) if self.is_ha else (1,)

    def start(
        self,
        datanodes: int | None,
        replication: int | None,
        is_ha: bool,
        has_kerberos: bool = False,
        has_tls: bool = False,
    ) -> None:
        """Start what does not run, and wait until files can be written.

        Raises:
            ClusterError: it does not start, or it is of the other kind.
        """
        count = datanodes or self._kind.get("datanodes", 1)
        copies = replication or self._kind.get("replication", min(count, 3))
        if self._kind and is_ha and not self.is_ha:
            raise ClusterError("This HDFS has one NameNode: `hdfs.sh stop --remove` first, which removes its files.")
        if self._kind and has_kerberos and not self.has_kerberos:
            raise ClusterError("This HDFS asks for no tickets: `hdfs.sh stop --remove` first, which removes its files.")
        if self._kind and has_tls and not self.has_tls:
            raise ClusterError("This HDFS has no certificates: `hdfs.sh stop --remove` first, which removes its files.")
        self._kind = {
            "datanodes": count,
            "replication": copies,
            "ha": is_ha or self._kind.get("ha", False),
            "kerberos": has_kerberos or self.has_kerberos,
            "tls": has_tls or self.has_tls,
        }
        self._kind_path.write_text(json.dumps(self._kind))
        settings = {"core-site.xml": self._core_site(), "hdfs-site.xml": self._hdfs_site()}
        if self.has_tls:
            self.certificates.make()
            settings["ssl-server.xml"] = self.certificates.settings()
        write_settings(self.conf, settings)
        if self.has_kerberos:
            self._realm.start()
            self._realm.log_in(self._realm.server, "servers")
        is_new = not (self._folder / "name-1").exists()
        if is_new:
            self._format()
        for number in self._namenodes:
            self.start_namenode(number)
        for number in range(1, count + 1):
            self.start_datanode(number)
        if self.is_ha:
            self._activate_one()
        self.wait()
        if is_new and self.has_kerberos:
            self.admin("fs", "-chmod", "1777", "/")
        elif is_new:
            # Who may write at the top of a cluster for tests is anybody, as in /tmp.
            send("PUT", f"{self._web(self.active())}/webhdfs/v1/?op=SETPERMISSION&permission=1777&user.name={user()}")

    def start_namenode(self, number: int) -> None:
        options = [f"-Ddfs.ha.namenode.id=nn{number}"] if self.is_ha else []
        name = f"-Ddfs.namenode.name.dir=file://{self._folder}/name-{number}"
        command = self._java(f"{_SERVER}.namenode.NameNode", *options, name)
        if self.servers.start(f"namenode-{number}", command):
            say(f"starting NameNode {number}")

    def start_datanode(self, number: int) -> None:
        data = f"-Ddfs.datanode.data.dir=file://{self._folder}/data-{number}"
        if self.servers.start(f"datanode-{number}", self._java(f"{_SERVER}.datanode.DataNode", data)):
            say(f"starting DataNode {number}")

    def wait(self) -> None:
        """Wait until the active NameNode is out of safe mode and has registered the DataNodes that run."""

        def is_ready() -> bool:
            port = self._ports[f"http-{self.active() or 1}"]
            is_open = state(port, "NameNode,name=FSNamesystemState").get("FSState") == "Operational"
            return is_open and self._has_registered_all(state(port, "NameNode,name=NameNodeInfo"))

        self.servers.wait("HDFS", is_ready)

    def _has_registered_all(self, shown: Mapping[str, Any]) -> bool:
        """Return whether the NameNode knows each DataNode by a port on which its present process listens.

        A number would not tell: one that was killed counts as live for another 12 s.
        """
        live = json.loads(shown.get("LiveNodes", "{}")).values()
        known = {int(one["xferaddr"].rpartition(":")[2]) for one in live}
        found = [self.servers.process(name) for name in self.servers.names() if name.startswith("datanode-")]
        return all(known & _listening(one) for one in found if one is not None and not _is_stopped(one))

    def active(self) -> int | None:
        """Return the number of the active NameNode. None if neither is."""
        for number in self._namenodes:
            shown = state(self._ports[f"http-{number}"], "NameNode,name=NameNodeStatus")
            if shown.get("State") == "active":
                return number
        return None

    def failover(self) -> None:
        """Make the other NameNode the active one; the present one may be dead.

        Raises:
            ClusterError: there is only one, or the other does not run.
        """
        if not self.is_ha:
            raise ClusterError("This HDFS has one NameNode: `hdfs.sh stop --remove`, then `hdfs.sh start --ha`.")
        old = self.active() or next(one for one in (1, 2) if self.servers.process(f"namenode-{one}") is None)
        new = 3 - old
        if self.servers.process(f"namenode-{new}") is None:
            raise ClusterError(f"NameNode {new} does not run: `hdfs.sh start-nn {new}` first.")
        if self.servers.process(f"namenode-{old}") is not None:
            self.admin("haadmin", "-transitionToStandby", f"nn{old}")
        self._activate(new)
        say(f"NameNode {new} is active")

    def admin(self, tool: str, *arguments: str) -> str:
        """Run a command of HDFS for administrators or files."""
        if self.has_kerberos:
            self._realm.log_in(self._realm.server, "servers")
        tools = {
            "dfsadmin": f"{_TOOLS}.DFSAdmin",
            "haadmin": f"{_TOOLS}.DFSHAAdmin",
            "fs": "org.apache.hadoop.fs.FsShell",
        }
        return run_java(self._java(tools[tool], *arguments, heap_mb=128))

    def _activate_one(self) -> None:
        self.servers.wait("HDFS", lambda: all(self._role(number) for number in self._namenodes))
        if self.active() is None:
            self._activate(1)

    def _activate(self, number: int) -> None:
        self.admin("haadmin", "-transitionToActive", "--forceactive", f"nn{number}")
        self.servers.wait("HDFS", lambda: self._role(number) == "active")

    def _role(self, number: int) -> str:
        return str(state(self._ports[f"http-{number}"], "NameNode,name=NameNodeStatus").get("State", ""))

    def _format(self) -> None:
        say("formatting HDFS")
        options = ["-Ddfs.ha.namenode.id=nn1"] if self.is_ha else []
        name = f"-Ddfs.namenode.name.dir=file://{self._folder}/name-1"
        run_java(self._java(f"{_SERVER}.namenode.NameNode", *options, name, "-format", "-nonInteractive"))
        if not (self._folder / "name-1" / "current" / "VERSION").exists():  # without a jar it exits with 0 all the same
            raise ClusterError(
                f"{self._folder}/name-1 was not formatted: a jar is missing, or the folder is read-only."
            )
        if self.is_ha:
            shutil.copytree(self._folder / "name-1", self._folder / "name-2")

    def _java(self, *arguments: str, heap_mb: int = 256) -> list[str]:
        realm = [f"-Djava.security.krb5.conf={self._realm.conf}"] if self.has_kerberos else []
        return java(self.servers, class_path(self.conf), *realm, *arguments, heap_mb=heap_mb)

    def secure_web(self) -> str:
        """Return where the active NameNode answers by HTTPS."""
        return f"https://{self._host}:{self._ports[f'https-{self.active() or 1}']}"

    def _web(self, number: int | None) -> str:
        return f"http://{self._host}:{self._ports[f'http-{number or 1}']}"

    def _core_site(self) -> dict[str, object]:
        return {
            "fs.defaultFS": self.url,
            "hadoop.tmp.dir": self._folder / "tmp",
            "hadoop.http.staticuser.user": user(),  # who asks WebHDFS without a name; by default a stranger, dr.who
            **(self._realm_settings() if self.has_kerberos else {}),
        }

    def _realm_settings(self) -> dict[str, object]:
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "hadoop.http.authentication.type": "kerberos",
            "hadoop.http.authentication.kerberos.principal": self._realm.web,
            "hadoop.http.authentication.kerberos.keytab": self._realm.keytab("servers"),
            "hadoop.http.authentication.signature.secret.file": self._realm.secret,
            "hadoop.http.authentication.kerberos.endpoint.whitelist": "/jmx",  # these scripts ask it for the state
        }

    def _hdfs_site(self) -> dict[str, object]:
        return {
            **self._addresses(),
            **(self._principals() if self.has_kerberos else {}),
            **({"dfs.http.policy": "HTTP_AND_HTTPS"} if self.has_tls else {}),
            "dfs.replication": self._kind["replication"],
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.handler.count": 8,
            # The NameNode learns the DataNodes' ports from them.
            "dfs.datanode.hostname": "127.0.0.1",
            **{f"dfs.datanode.{kind}address": "127.0.0.1:0" for kind in ("", "http.", "https.", "ipc.")},
            "dfs.datanode.handler.count": 4,
            "dfs.datanode.du.reserved": 0,
            # A dead DataNode is avoided after 3 s, and counts as dead after 2 x 1 s + 10 x 1 s.
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.heartbeat.recheck-interval": 1000,
            "dfs.namenode.stale.datanode.interval": 3000,
            "dfs.namenode.stale.datanode.minimum.interval": 2,
            "dfs.namenode.avoid.write.stale.datanode": "true",
            "dfs.namenode.avoid.read.stale.datanode": "true",
            # A small cluster has no DataNode left to take the place of a dead one while a file is written.
            "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
            # WebHDFS asks after 5 ms, instead of 400, whether a new file is complete.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": 5,
            "dfs.client.block.write.locateFollowingBlock.retries": 10,
        }

    def _principals(self) -> dict[str, object]:
        keys, server = self._realm.keytab("servers"), self._realm.server
        return {
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",  # else DataNodes need root, or certificates
            "dfs.namenode.delegation.token.renew-interval": TOKENS_LAST_S * 1000,
            **{f"dfs.{kind}.kerberos.principal": server for kind in ("namenode", "datanode")},
            **{f"dfs.{kind}.keytab.file": keys for kind in ("namenode", "datanode")},
            "dfs.web.authentication.kerberos.principal": self._realm.web,
            "dfs.web.authentication.kerberos.keytab": keys,
        }

    def _addresses(self) -> dict[str, object]:
        ports = self._ports
        if not self.is_ha:
            return {f"dfs.namenode.{kind}-address": f"127.0.0.1:{ports[f'{kind}-1']}" for kind in self._protocols}
        pairs = [(kind, number) for kind in self._protocols for number in (1, 2)]
        return {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": "nn1,nn2",
            **{
                f"dfs.namenode.{kind}-address.{SERVICE}.nn{number}": f"127.0.0.1:{ports[f'{kind}-{number}']}"
                for kind, number in pairs
            },
            "dfs.namenode.shared.edits.dir": f"file://{self._folder}/edits",
            f"dfs.client.failover.proxy.provider.{SERVICE}": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.ha.tail-edits.period": "1s",
            "dfs.ha.standby.checkpoints": "false",
        }


def _listening(process: psutil.Process) -> set[int]:
    """Return the ports on which a process listens; none if it has ended."""
    with contextlib.suppress(psutil.Error):
        connections = getattr(process, "net_connections", None) or process.connections  # its name before psutil 6
        return {one.laddr.port for one in connections("tcp") if one.status == psutil.CONN_LISTEN}
    return set()


def _is_stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False


@contextlib.contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Run an HDFS of one DataNode in an empty folder, and yield its URL; all users may write to it.

    Raises:
        ClusterError: it does not start.
    """
    cluster = Hdfs(folder)
    try:
        cluster.start(1, 1, is_ha=False)
        yield cluster.url
    finally:
        cluster.servers.end_all()
