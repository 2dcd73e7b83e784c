"""What the files below a URL of HDFS have in common, whichever client reaches them."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from weakref import WeakValueDictionary

from asyncsearch.errors import ContentAwayError, StoreAwayError, StoreError
from asyncsearch.store.disk import next_step
from asyncsearch.store.hdfs import hdfs_errors
from asyncsearch.store.hdfs.addresses import parse
from asyncsearch.store.passwords import without_password

_log = logging.getLogger(__name__)
_guards: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()
_guards_guard = threading.Lock()


class HadoopFiles:
    """The files below a URL. It holds no connection."""

    is_exclusive = True

    def __init__(self, url: str) -> None:
        self._place = parse(url)
        self.url = f"{self._place.scheme}://{self._place.authority}{self._place.path or '/'}"

    @property
    def shown(self) -> str:
        """The URL for messages."""
        return without_password(self.url)

    def path(self, name: str) -> str:
        """Return the path of a file on HDFS."""
        return f"{self._place.path}/{name}" if name else self._place.path or "/"

    @contextlib.contextmanager
    def explained(self, doing: str, name: str) -> Iterator[None]:
        """Turn any error of HDFS, of the connection or of a local file into a StoreError in words."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # each client has exceptions of its own
            meaning, step = hdfs_errors.explain(self._named(error))
            where = f"{self.shown}/{name}".rstrip("/")
            _log.debug("Cannot %s %r: %s", doing, where, error)
            # Not `from error`: Java's stack trace would be shown.
            kind = StoreAwayError if hdfs_errors.passes(meaning) else StoreError
            kind = ContentAwayError if meaning == hdfs_errors.NO_CONTENT else kind
            raise kind(f"Cannot {doing} {where!r}: {meaning}. {next_step(error, step)}.") from None

    def _named(self, error: Exception) -> Exception:
        """Return an error whose text begins with the name of Java's exception, if there was one."""
        return error

    def _guard(self, cluster: str, name: str) -> threading.Lock:
        """Return the lock of a file in this process, the same one for every store that has the file."""
        key = (cluster, self.path(name))
        with _guards_guard:
            lock = _guards.get(key)
            if lock is None:
                lock = _guards[key] = threading.Lock()
            return lock
