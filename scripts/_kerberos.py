"""A Kerberos realm on this machine, without root: a key distribution centre, and the keytabs of servers and users.

It needs the programs of MIT Kerberos; on Debian `apt-get install krb5-kdc krb5-admin-server krb5-user`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from _servers import ClusterError, Servers, say

REALM = "ASYNCSEARCH.TEST"
HOST = "localhost"
USER = "ann"
_PROGRAMS = ("kdb5_util", "kadmin.local", "krb5kdc", "kinit")
_SBIN = "/usr/sbin:/usr/local/sbin"


class Realm:
    """One realm, in the folder of a cluster."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._folder = servers.folder / "kerberos"
        self.conf = self._folder / "krb5.conf"

    @property
    def server(self) -> str:
        """The principal of the NameNode and the DataNodes."""
        return f"hdfs/{HOST}@{REALM}"

    @property
    def web(self) -> str:
        """The principal of their web servers."""
        return f"HTTP/{HOST}@{REALM}"

    def keytab(self, name: str) -> Path:
        """Return the file with the keys of ``servers`` or of a user."""
        return self._folder / f"{name}.keytab"

    @property
    def secret(self) -> Path:
        """The file with which web servers sign their cookies."""
        return self._folder / "secret"

    def start(self) -> None:
        """Start the centre unless it runs; make the realm the first time.

        Raises:
            ClusterError: a program of MIT Kerberos is missing, or fails.
        """
        missing = [name for name in _PROGRAMS if _program(name) is None]
        if missing:
            raise ClusterError(f"There is no {missing[0]}: apt-get install krb5-kdc krb5-admin-server krb5-user.")
        is_new = not self._folder.exists()
        if is_new:
            self._folder.mkdir(mode=0o700)
            self.secret.write_text(secrets.token_hex(32))
            self._configure()
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "a password of a test")
            for principal, keytab in ((self.server, "servers"), (self.web, "servers"), (f"{USER}@{REALM}", USER)):
                self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
                self._run("kadmin.local", "-q", f"ktadd -k {self.keytab(keytab)} {principal}")
        if self._servers.start("kdc", [str(_program("krb5kdc")), "-n"], self._environment()):
            say("starting the key distribution centre")

    def log_in(self, principal: str, keytab: str) -> None:
        """Get a ticket for this process and those that it starts.

        Raises:
            ClusterError: the centre does not answer.
        """
        os.environ.update(self._environment(), KRB5CCNAME=f"FILE:{self._folder / 'ticket'}")
        command = [str(_program("kinit")), "-k", "-t", str(self.keytab(keytab)), principal]

        def has_ticket() -> bool:
            return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

        self._servers.wait("Kerberos", has_ticket)

    def _environment(self) -> dict[str, str]:
        return {"KRB5_CONFIG": str(self.conf), "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf")}

    def _configure(self) -> None:
        port = self._servers.ports("kdc")["kdc"]
        self.conf.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
            f"[domain_realm]\n {HOST} = {REALM}\n"
        )
        (self._folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self._folder}/principal\n"
            f"  key_stash_file = {self._folder}/stash\n  acl_file = {self._folder}/acl\n  max_life = 1d\n"
            f"  max_renewable_life = 7d\n }}\n"
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_program(program)), *arguments]
        environment = {**os.environ, **self._environment()}
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ClusterError(f"{program} failed with exit code {done.returncode}:\n{done.stderr[-500:]}")


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SBIN)
