"""Answers of HDFS in words: hdfs-native passes on Java's exceptions with their stack traces. Pure."""

from __future__ import annotations

import re

_RPC = re.compile(r'RPCError\("(?:[\w.]+\.)?([\w$]+)", "(.*)', re.DOTALL)
_OTHER = re.compile(r'(\w+Error)\("(.*)', re.DOTALL)
_STACK = re.compile(r"(?:\\n|\n).*|\"\)$", re.DOTALL)

_AWAY = "See whether the NameNode and the DataNodes run"
NO_CONTENT = "no DataNode has the file's content now"
"""The meaning of a file whose blocks are away, or lost."""
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        "SafeMode",
        "the NameNode is in safe mode, in which nothing can be written",
        "It leaves it by itself once its DataNodes have reported, or by: hdfs dfsadmin -safemode leave",
    ),
    ("Standby", "no NameNode of the cluster is active", "Wait for the failover, or ask the cluster's administrators"),
    (
        "AccessControl",
        "this user lacks the right to do that",
        "Let an administrator give it, choose another folder, or act as another user: HADOOP_USER_NAME",
    ),
    ("QuotaExceeded", "the quota of that folder is used up", "Free some space there, or choose another folder"),
    (
        "could only be written to 0 of",
        "no DataNode can take a new file now",
        "See whether enough DataNodes run, and have space",
    ),
    (
        "could only be replicated to 0 nodes",  # before Hadoop 3
        "no DataNode can take a new file now",
        "See whether enough DataNodes run, and have space",
    ),
    ("No DataNodes", NO_CONTENT, _AWAY),
    ("All DataNodes failed", NO_CONTENT, _AWAY),
    ("BlocksNotFound", NO_CONTENT, _AWAY),
    ("blocks not found", NO_CONTENT, _AWAY),
    ("BlockMissing", NO_CONTENT, _AWAY),
    ("InvalidPath", "HDFS takes no such name, as one with a ':'", "Choose another name"),
    ("MaxPathComponentLength", "HDFS takes no name as long as that", "Choose a shorter path"),
    ("PathComponentTooLong", "HDFS takes no name as long as that", "Choose a shorter path"),
    ("ParentNotDirectory", "a parent of that path is a file", "A store and all its parents must be folders"),
    ("is a directory", "a folder lies where the store keeps a file", "Move it away, or choose another store"),
    ("LeaseExpired", "another process has closed the file", "Go on in a new one"),
    ("Unexpected BlockUCState", "another process has closed the file", "Go on in a new one"),
    ("Block writer is closed", "the file cannot be written on after an earlier error", "Go on in a new one"),
    ("SASL", "it refuses the authentication of this user", "See whether there is a valid ticket: klist"),
    ("GSSAPI", "it refuses the authentication of this user", "See whether there is a valid ticket: klist"),
    ("Kerberos", "it refuses the authentication of this user", "See whether there is a valid ticket: klist"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "this machine does not trust the certificate that it shows",
        "Name a file with the certificate of its authority in REQUESTS_CA_BUNDLE, on the driver and on all workers",
    ),
    ("RPC listener disconnected", "the NameNode does not answer", _AWAY),
    ("DataTransferError", "a DataNode has broken off the transfer", _AWAY),
    ("Connection refused", "the NameNode or a DataNode does not answer", _AWAY),
    ("timed out", "the NameNode or a DataNode does not answer in time", _AWAY),
    ("Connection reset", "the NameNode or a DataNode has closed the connection", _AWAY),
    ("Broken pipe", "the NameNode or a DataNode has closed the connection", _AWAY),
    ("early eof", "the NameNode or a DataNode has closed the connection", _AWAY),
    ("unexpected end of file", "the NameNode or a DataNode has closed the connection", _AWAY),
)
"""Part of an answer -> its meaning -> the next step."""
_PASSING = re.compile(
    "safe mode|no NameNode of the cluster is active|take a new file now|answer|transfer|closed the conn"
)


def explain(error: BaseException) -> tuple[str, str]:
    """Return the meaning of an error and the next step, each as the part of a sentence without a stack trace."""
    text = plain(error)  # Java's stack traces contain the names of other errors
    meaning, step = next(((meaning, step) for sign, meaning, step in _KNOWN if sign in text), ("", ""))
    if meaning:
        return meaning, step
    return text, "Check the address, the rights and the connection, then try again"


def passes(meaning: str) -> bool:
    """Return whether what an answer means passes by itself: servers are away, or not ready."""
    return _PASSING.search(meaning) is not None


def plain(error: BaseException) -> str:
    """Return the text of an error, without Java's stack trace and package names."""
    text = str(error)
    found = _RPC.fullmatch(text) or _OTHER.fullmatch(text)
    name, words = (found[1], found[2]) if found else (type(error).__name__, text)
    return f"{name}: {_STACK.sub('', words)}".rstrip(": ")
