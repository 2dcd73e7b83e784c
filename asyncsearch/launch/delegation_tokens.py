"""Delegation tokens of Hadoop for workers, as long as a run lasts: before the first launch, and before they run out.

hdfs-native and HdfsCLI use tokens and cannot ask for them. The Java process of Spark's driver gets them with the user's
ticket or keytab: Spark's own class for it logs in anew each time, by ``spark.kerberos.keytab`` where it is set, else by
the ticket of the user.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from asyncsearch.launch.base_launcher import Launcher, Tokens
from asyncsearch.store.hdfs import tokens

_AGAIN_S = 60.0
"""When to ask again where there were none to be had."""


class TokenRenewal:
    """Asks a launcher for tokens, and passes them on; does nothing where workers need none."""

    def __init__(
        self, launcher: Launcher, url: str, grant: Callable[[bytes], None], warn: Callable[[str], None]
    ) -> None:
        """Prepare a renewal; nothing is asked yet.

        Args:
            url: of the store.
            grant: called with each new file of tokens, from any thread.
            warn: called with a sentence for people when tokens could not be renewed.
        """
        self._launcher, self._url = launcher, url
        self._grant, self._warn = grant, warn
        self._file = b""
        self._is_over = threading.Event()

    def start(self) -> None:
        """Ask for the first tokens and pass them on."""
        due_s = self._ask()
        if due_s is not None:
            self._launcher.thread(lambda: self._run(due_s), "asyncsearch-tokens").start()

    def stop(self) -> None:
        """Ask no more."""
        self._is_over.set()

    def _run(self, due_s: float) -> None:
        while not self._is_over.wait(due_s):
            due_s = self._ask() or _AGAIN_S

    def _ask(self) -> float | None:
        """Return after how many seconds to ask again. None if workers need no tokens."""
        try:
            found = self._launcher.tokens_for(self._url)
        except Exception as error:  # of Java: each version has others
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            self._warn(
                f"There are no new delegation tokens for {self._url!r}: {reason}. Workers go on with those they have as"
                " long as these are valid. See whether the driver has a valid ticket (klist), or give Spark a keytab."
            )
            return _AGAIN_S
        if found is None:
            return None
        if found.file != self._file:
            self._pass_on(found)
        return found.renew_in_s

    def _pass_on(self, found: Tokens) -> None:
        self._file = found.file
        if tokens.LOCATION in os.environ:  # this process, too, lives on tokens, as in a container of YARN
            tokens.use(found.file)
        self._grant(found.file)


_WITH_HDFS = ("hdfs", "viewfs", "webhdfs", "swebhdfs")
_LIFE = "dfs.namenode.delegation.token.renew-interval"
_LIFE_MS = 86_400_000.0
"""How long a NameNode takes a token that nobody renews, by default."""
_SHARE = 0.75
"""Of its life after which a token is replaced, as Spark does."""
_LOOK_S = 60.0
"""How often others look for tokens that Spark itself has renewed."""
_PLACES = "spark.kerberos.access.hadoopFileSystems"


def delegation_tokens(context: Any, url: str) -> Tokens | None:
    """Return tokens for a URL of HDFS; None if it is none, the cluster asks for no tickets, or there are no tokens.

    Args:
        context: the SparkContext.

    Raises:
        Exception: of Java, if a NameNode gives none.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in _WITH_HDFS:
        return None
    security = context._jvm.org.apache.hadoop.security
    if not security.UserGroupInformation.isSecurityEnabled():
        return None
    hadoop = context._jsc.hadoopConfiguration()
    found = security.Credentials()
    # By HTTP the tokens of the cluster's own protocol count, too; Spark's Java classes cannot ask for those of HTTP.
    place = f"{scheme}://{rest.partition('/')[0]}/" if scheme in _WITH_HDFS[:2] and rest[:1] != "/" else ""
    context._jvm.org.apache.spark.deploy.security.HadoopDelegationTokenManager(
        _for_files_alone(context, place), hadoop, None
    ).obtainDelegationTokens(found)
    life_s = _SHARE * float(hadoop.get(_LIFE) or _LIFE_MS) / 1000
    if not found.numberOfTokens():  # without a ticket, as in a container of YARN: Spark has been given some
        found, life_s = security.UserGroupInformation.getCurrentUser().getCredentials(), _LOOK_S
    return Tokens(_file_of(context, found), life_s) if found.numberOfTokens() else None


def _for_files_alone(context: Any, place: str) -> Any:
    """Return Spark's settings such that tokens of file systems are asked for, and none of databases."""
    settings = context._jsc.sc().conf().clone()
    places = [*settings.get(_PLACES, "").split(","), place]
    settings.set(_PLACES, ",".join(dict.fromkeys(one for one in places if one)))
    for other in ("hive", "hbase", "kafka"):
        settings.set(f"spark.security.credentials.{other}.enabled", "false")
    return settings


def _file_of(context: Any, credentials: Any) -> bytes:
    java = context._jvm.java.io
    written = java.ByteArrayOutputStream()
    credentials.writeTokenStorageToStream(java.DataOutputStream(written))
    return bytes(written.toByteArray())
