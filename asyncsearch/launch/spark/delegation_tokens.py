"""Delegation tokens of Hadoop, which the Java process of Spark's driver gets with the user's ticket or keytab.

hdfs-native and HdfsCLI use tokens and cannot ask for them. Spark's own class for it logs in anew each time: by
``spark.kerberos.keytab`` where it is set, else by the ticket of the user.
"""

from __future__ import annotations

from typing import Any

from asyncsearch.launch.base_launcher import Tokens

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
