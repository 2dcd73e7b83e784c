"""Addresses of HDFS clusters: what a URL leaves out is taken from Spark's Hadoop configuration, or HADOOP_CONF_DIR.

``hdfs:///x`` names neither a NameNode nor a name service, and ``hdfs://nameservice/x`` no machine. The driver finds out
once, and what it found travels with the store, so that workers need no configuration of their own.
"""

from __future__ import annotations

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch.errors import StoreError

_DEFAULT = "fs.defaultFS"
_DEFAULT_PORT = 8020
_PREFIXES = (
    "dfs.nameservices",
    "dfs.ha.namenodes.",
    "dfs.namenode.rpc-address.",
    "dfs.namenode.kerberos.",
    "dfs.client.",
    "dfs.data.transfer.",
    "dfs.encrypt.data.transfer",
    "fs.viewfs.mounttable.",
    "hadoop.rpc.protection",
    "hadoop.security.authentication",
)
"""Settings that hdfs-native may read. All of Hadoop's would be 40 KB in each message to a worker."""
_FILES = ("core-site.xml", "hdfs-site.xml")
_HOW = (
    "Write the NameNode into the URL, 'hdfs://namenode:8020/...'; or open the store while a Spark session of the"
    " cluster is active, or with HADOOP_CONF_DIR set"
)


class Address(NamedTuple):
    """A cluster, in the form that hdfs-native takes."""

    url: str
    """``hdfs://host:port``, or ``hdfs://`` or ``viewfs://`` with a name that ``settings`` explains."""
    settings: tuple[tuple[str, str], ...] = ()


class Place(NamedTuple):
    """The parts of a URL. No character of the path is special."""

    scheme: str
    authority: str
    path: str
    """Begins with ``/``, does not end with it."""


def parse(url: str) -> Place:
    """Return the parts of a URL.

    Raises:
        StoreError: HDFS cannot have such a path.
    """
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    parts = [part for part in path.split("/") if part]
    wrong = next((part for part in parts if part in (".", "..") or ":" in part or "\0" in part), None)
    if wrong is not None:
        raise StoreError(f"{url!r} cannot be a path on HDFS, because of {wrong!r}: use no '.', '..' and ':' in names.")
    return Place(scheme.lower(), authority, "".join(f"/{part}" for part in parts))


def address_of(url: str, settings: Mapping[str, str]) -> Address:
    """Return the cluster that a URL names, with the settings that are needed to reach it.

    Raises:
        StoreError: neither the URL nor the settings say where it is.
    """
    scheme, authority, _ = parse(url)
    kept = tuple(sorted((key, value) for key, value in settings.items() if key.startswith(_PREFIXES)))
    if not authority:
        default = settings.get(_DEFAULT, "")
        found = parse(default) if "://" in default else Place("", "", "")
        if found.scheme != scheme or not found.authority:
            known = f"{_DEFAULT} is {default!r}" if default else f"no configuration of Hadoop was found ({_DEFAULT})"
            raise StoreError(f"{url!r} names no NameNode, and {known}. {_HOW}.")
        authority = found.authority
    if scheme == "viewfs":
        if not any(key.startswith(f"fs.viewfs.mounttable.{authority}.") for key, _ in kept):
            raise StoreError(f"{url!r} names the mount table {authority!r}, which no configuration knows. {_HOW}.")
        return Address(f"viewfs://{authority}", kept)
    if re.search(r":\d+$", authority) is None and f"dfs.ha.namenodes.{authority}" not in settings:
        if not settings:
            raise StoreError(f"{url!r} names no port, and no configuration knows {authority!r}. {_HOW}.")
        authority = f"{authority}:{_DEFAULT_PORT}"
    return Address(f"hdfs://{authority}", kept)


def gateways_of(url: str, settings: Mapping[str, str]) -> str:
    """Return the addresses of the NameNodes for a ``webhdfs://`` or ``swebhdfs://`` URL, separated by ``;``.

    Raises:
        StoreError: neither the URL nor the settings say where they are.
    """
    scheme, authority, _ = parse(url)
    kind, port = ("https", 9871) if scheme == "swebhdfs" else ("http", 9870)
    name = authority or parse(settings.get(_DEFAULT, "")).authority
    nodes = settings.get(f"dfs.ha.namenodes.{name}", "").split(",")
    found = [settings.get(f"dfs.namenode.{kind}-address.{name}.{node.strip()}", "") for node in nodes if node.strip()]
    if not found and authority:
        found = [authority if re.search(r":\d+$", authority) else f"{authority}:{port}"]
    if not found and (address := settings.get(f"dfs.namenode.{kind}-address")):
        found = [address]
    if not all(found) or not found:
        raise StoreError(
            f"{url!r} names no NameNode, and no configuration of Hadoop says where one answers over {kind}. Write it"
            f" into the URL, '{scheme}://namenode:{port}/...'; or set HADOOP_CONF_DIR."
        )
    return ";".join(f"{kind}://{address}" for address in found)


def hadoop_settings() -> dict[str, str]:
    """Return the settings of Hadoop in this process: of the active Spark session, and of HADOOP_CONF_DIR."""
    files, session = _of_files(), _of_spark()
    settings = files | session
    default = session.get(_DEFAULT, "")
    if _DEFAULT in files and not default.startswith(("hdfs:", "viewfs:")):  # Spark's own default is file:///
        settings[_DEFAULT] = files[_DEFAULT]
    return settings


def _of_spark() -> dict[str, str]:
    """Ask the Spark session of this process, if there is one; pyspark is not imported for it."""
    pyspark: Any = sys.modules.get("pyspark")
    context: Any = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    try:
        hadoop = context._jsc.hadoopConfiguration()
        found = {_DEFAULT: str(hadoop.get(_DEFAULT) or "")}
        for prefix in ("dfs.", "fs.viewfs.mounttable.", "hadoop.rpc.", "hadoop.security."):
            found |= {f"{prefix}{key}": str(value) for key, value in hadoop.getPropsWithPrefix(prefix).items()}
        return found
    except Exception:  # no session, one of Spark Connect, or one that was stopped: each raises something else
        return {}


def _of_files() -> dict[str, str]:
    folder = os.environ.get("HADOOP_CONF_DIR") or (
        f"{os.environ['HADOOP_HOME']}/etc/hadoop" if os.environ.get("HADOOP_HOME") else ""
    )
    found: dict[str, str] = {}
    for path in (Path(folder) / name for name in _FILES if folder):
        if not path.is_file():
            continue
        try:
            root = ElementTree.parse(path).getroot()
        except (ElementTree.ParseError, LookupError, ValueError, OSError) as error:  # or of an unknown encoding
            raise StoreError(f"Cannot read {str(path)!r} of HADOOP_CONF_DIR: {error}. Correct that file.") from error
        for item in root.iter("property"):
            name, value = (item.findtext("name") or "").strip(), (item.findtext("value") or "").strip()
            if name:
                found[name] = value
    return found
