"""``open_store``: the store for each path or URL, and the errors for refused ones."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from pathlib import Path

import pytest

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.store import LocalStore, open_store, register_store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("relative/path", "relative/path"),
        (Path("relative/path"), "relative/path"),
        ("./s3:x", "s3:x"),
        ("a/../b", "b"),
        ("~/studies", "home/studies"),
        ("file://{}/plain", "plain"),
        ("file:{}/plain", "plain"),
        ("FILE://localhost{}/plain", "plain"),
        ("local://{}/plain", "plain"),
        ("file://{}/a%20b%25", "a b%"),
        ("a%20b", "a%20b"),
        ('a\'; echo foo "b" ü *[x]?#&', 'a\'; echo foo "b" ü *[x]?#&'),
        ("a:b/c", "a:b/c"),
    ],
)
def test_paths_become_local_stores(home: Path, given: str | Path, path: str) -> None:
    store = open_store(given.format(home) if isinstance(given, str) else given)
    assert isinstance(store, LocalStore)
    assert store.url == str(home / path)
    assert open_store(store.url).url == store.url
    assert pickle.loads(pickle.dumps(store)).url == store.url
    assert list(home.iterdir()) == [], "opening writes nothing"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "is no path"),
        ("  ", "is no path"),
        ("a\0b", "is no path"),
        ("~nobody-of-this-name/x", "home folder"),
        ("file://otherhost/x", "names another machine"),
        ("file:x", "no absolute path"),
        ("nope://x/y", r"'nope://', which neither.*install the fsspec file system"),
        (Path("s3://bucket/x"), r"Write as text: 's3://"),
        ("hdfs:/studies", r"Write as text: 'hdfs:///studies', on another cluster 'hdfs://HOST/"),
        ("dbfs:/studies", r"Write as text: '/dbfs/studies';"),
        ("simplecache::s3://bucket/x", "chain of URLs"),
        ("x" * 300, "File name too long"),
        (os.fsdecode(b"studies/\xff"), r"xff' is not UTF-8.*Rename it"),
    ],
)
def test_what_is_no_place_is_refused(home: Path, given: str | Path, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        open_store(given)


def test_a_link_that_leads_nowhere_is_no_place_to_make_a_folder(home: Path) -> None:
    (home / "studies").symlink_to(home / "disk" / "studies")
    with pytest.raises(StoreError, match=r"a link to '.*disk/studies'.*not be mounted.*choose another path"):
        open_store(home / "studies")
    (home / "disk" / "studies").mkdir(parents=True)
    open_store(home / "studies").prepare()


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    if "dropbox" not in fsspec.available_protocols() or "dropboxdrivefs" in sys.modules:
        pytest.skip("this fsspec knows no file system that is not installed")
    with pytest.raises(StoreError, match=r"package for 'dropbox://' is missing:.*pip"):
        open_store("dropbox://x/y")


@pytest.mark.parametrize(("url", "package", "extra"), [("s3://b/x", "s3fs", "s3"), ("abfss://c/x", "adlfs", "azure")])
def test_a_store_of_objects_says_which_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # as where it is not installed
    found = importlib.import_module("fsspec.registry")._registry  # a test before this one may have opened such a store
    monkeypatch.delitem(found, url.partition(":")[0], raising=False)
    with pytest.raises(
        StoreError, match=rf"Install 'asyncsearch\[{extra}\]' with pip on the driver and on all workers"
    ):
        open_store(url)


def test_hdfs_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.store.opening.find_spec", lambda name: None)
    with pytest.raises(StoreError, match=r"asyncsearch\[hdfs\].*all workers"):
        open_store("hdfs:///studies/digits")


def test_a_registered_scheme_is_opened_by_its_factory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("asyncsearch.store.opening._factories", {})
    register_store("Team", lambda url: LocalStore(tmp_path / url.removeprefix("team://")))
    assert open_store("team://digits").url == str(tmp_path / "digits")


def test_an_unknown_scheme_says_how_to_register_it() -> None:
    with pytest.raises(StoreError, match=r"register_store\('nowhere', "):
        open_store("nowhere://digits")


@pytest.mark.parametrize("scheme", ["", "file", "Local", "a b", "1a", "a://"])
def test_what_is_no_scheme_of_ones_own_is_not_registered(scheme: str) -> None:
    with pytest.raises(UsageError, match="Choose another one"):
        register_store(scheme, LocalStore)


def test_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, and a store is a folder"):
        open_store(tmp_path / "file")


def test_store_modules_import_where_there_is_no_fcntl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    store = LocalStore(tmp_path / "store")
    store.prepare()
    with pytest.raises(StoreError, match="no POSIX locks"), store.lock():
        pass
