"""The laws of a store that studies share: files that one of many creates, folders, stores inside and beside."""

from __future__ import annotations

import uuid

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.files import survey
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.testing.store_checkpoints import NODE, OTHER, REF, copy_of, same, save, together
from asyncsearch.testing.store_shards import ShardLaws

ODD_NAMES = ["x", "x#1", "x#2", "x?1", "x?2", "x;1", "x;2", "x%231", "x%25", "x 1", "x+1"]


class SharingLaws(ShardLaws):
    """Laws of stores that hold a shared folder; ``make`` gives the one to try."""

    def test_a_file_is_created_once_and_stays_as_it_was(self) -> None:
        store = self.new()
        same([store.create("claims/a/1.json", data) for data in (b"first", b"second")], [True, False])
        same(store.read("claims/a/1.json"), b"first")

    def test_one_of_many_creates_a_file(self) -> None:
        store = self.new()
        created: list[int] = []

        def create(number: int) -> None:
            if store.create("claims/a/1.json", b"%d" % number):
                created.append(number)

        together(8, create)
        same(store.read("claims/a/1.json"), b"".join(b"%d" % number for number in created))

    def test_walk_finds_every_file_below_a_folder_with_its_size(self) -> None:
        store = self.new()
        for name in ("a/b/c", "a/d", "ab"):
            store.write(name, name.encode())
        same({name: file.size_bytes for name, file in store.walk("a").items()}, {"b/c": 5, "d": 3})
        same(store.walk("a/d"), {})
        same(store.walk("nowhere"), {})
        assert {"a/b/c", "a/d", "ab"} <= set(store.walk()), "walk() of the whole store lacks files"

    def test_remove_tree_takes_a_folder_or_a_file_and_nothing_else(self) -> None:
        store = self.new()
        for name in ("a/b/c", "a/d", "ab", "e"):
            store.write(name, b"x")
        for name in ("a", "a", "e", "nowhere"):
            store.remove_tree(name)
        same([store.read(name) for name in ("a/b/c", "a/d", "ab", "e")], [None, None, b"x", None])
        store.write("a/b/c", b"again")
        store.remove_if_empty("a")
        same(store.read("a/b/c"), b"again")

    def test_a_store_inside_and_one_beside_are_stores_of_their_own(self) -> None:
        store = self.new()
        inside, beside = store.child("evals/first"), store.sibling(uuid.uuid4().hex)
        places = [store, inside, beside]
        same(len({one.url for one in places}), 3)
        for number, one in enumerate(places):
            one.prepare()
            one.write("study.json", b"%d" % number)
        for number, one in enumerate(places):
            same(store.at(one.url).read("study.json"), b"%d" % number)

    def test_names_that_differ_by_a_special_character_are_different_stores(self) -> None:
        store = self.new()
        urls = [store.child(name).url for name in ODD_NAMES]
        for number, url in enumerate(urls):
            store.at(url).write("study.json", b"%d" % number)
        for number, url in enumerate(urls):
            place = store.at(url)
            same((place.read("study.json"), list(place.walk())), (b"%d" % number, ["study.json"]))

    def test_checkpoints_of_one_node_are_listed_alone(self) -> None:
        store = self.new()
        refs = [CheckpointRef(node, resource) for node in (NODE, OTHER) for resource in (3, 9)]
        for ref in refs:
            save(store, ref, model=b"m")
        same(store.checkpoints(OTHER), refs[2:])
        same(store.checkpoints(NodeKey("a" * 32)), [])

    def test_all_files_of_a_checkpoint_count_for_its_size_and_none_is_left_when_it_is_deleted(self) -> None:
        store = self.new()
        save(store, model=b"m" * 1000)
        found = survey(store).committed
        same(list(found), [REF])
        assert found[REF].size_bytes > 1000, f"a checkpoint of 1000 bytes and a manifest has {found[REF].size_bytes}"
        store.delete(REF)
        same(survey(store).committed, {})

    def test_one_study_trains_in_a_node_at_a_time(self) -> None:
        first = SharedFolder(self.new())
        first.prepare()
        second = SharedFolder(copy_of(first.store))
        same(first.claim([NODE], "first"), {NODE: None})
        assert "first" in (second.claim([NODE], "second")[NODE] or ""), "two studies have a claim of one node"
        first.release([NODE])
        same(second.claim([NODE], "second"), {NODE: None})
        second.close()

    def test_studies_learn_what_others_have_trained_and_keep_what_they_hold(self) -> None:
        first = SharedFolder(self.new())
        first.prepare()
        second = SharedFolder(first.store.at(first.store.url))
        save(first.store, model=b"m")
        save(first.store, CheckpointRef(OTHER, 1), model=b"m")
        first.publish(NODE, [(81, {"loss": 0.5})])
        same((second.read(NODE).reports, second.read(NODE).checkpoints), (((81, {"loss": 0.5}),), (81,)))
        same(second.hold("second", [REF]), frozenset())
        same(list(first.evict(0)), [CheckpointRef(OTHER, 1)])
        same(second.read(NODE).checkpoints, (81,))
