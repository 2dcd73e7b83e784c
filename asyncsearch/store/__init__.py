"""Stores: the durable home of a study, on disk or wherever fsspec reaches. See asyncsearch.store.base_store."""

from asyncsearch.store.base_store import Store
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.open_files import Segment
from asyncsearch.store.opening import open_store, register_store

__all__ = ["LocalStore", "Segment", "Store", "open_store", "register_store"]
