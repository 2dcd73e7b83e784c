"""The laws of every store, for those who write their own.

class TestMine(StoreTests):
    def make(self) -> Store:
        return MyStore(f"mine://tests/{uuid.uuid4().hex}")
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from asyncsearch.errors import StoreLockedError
from asyncsearch.store.layout import RESERVED
from asyncsearch.testing.store_checkpoints import copy_of, load, refused, same, save, together
from asyncsearch.testing.store_sharing import SharingLaws

ESCAPES = ["", "/etc/passwd", "../up", "a/../../up", "a//b", "a/", ".", "a\0b", "tmp/x", "lock", "..\\up"]
LOG_NAMES = ["", "/x", "../up", "a/b", "a\0b", "a\\b", ".hidden", "-x", "ü", "a b", "x" * 101]


class StoreTests(SharingLaws):
    """Laws that hold for any store; ``make`` gives the one to try. They run in some ten seconds."""

    # The store itself

    def test_a_store_is_locked_while_a_driver_holds_it_and_not_before_or_after(self) -> None:
        store = self.new()
        store.prepare()
        same(store.is_locked(), False)
        with store.lock():
            same(store.is_locked(), True)
        same(store.is_locked(), False)

    def test_prepare_may_be_called_again_and_leaves_nothing_else(self) -> None:
        store = self.new()
        store.write("study.json", b"{}")
        store.prepare()
        same(store.read("study.json"), b"{}")
        same(store.list("journal"), [])
        same(store.checkpoints(), [])

    def test_free_space_is_a_number_of_bytes_or_unknown(self) -> None:
        store = self.new()
        store.prepare()
        free = store.free_bytes()
        assert free is None or free >= 0, f"found {free!r} bytes free"

    def test_pickled_store_is_the_same_store(self) -> None:
        store = self.new()
        save(store, model=b"1")
        with store.lock():
            other = copy_of(store)
        same(other.url, store.url)
        same(load(other), {"model": b"1"})
        other.append_log("worker-1", ["from afar"])
        same(list(store.read_log("worker-1")), ["from afar"])

    # Small files

    def test_read_returns_what_was_written_last(self) -> None:
        store = self.new()
        same(store.read("study.json"), None)
        store.write("study.json", b"old")
        store.write("study.json", b"new")
        same(store.read("study.json"), b"new")
        store.write("snapshots/000000000001.json", b"")
        same(store.read("snapshots/000000000001.json"), b"")

    def test_removed_file_is_gone_and_may_be_removed_again(self) -> None:
        store = self.new()
        store.write("study.json", b"x")
        store.remove("study.json")
        store.remove("study.json")
        same(store.read("study.json"), None)

    def test_list_is_sorted_and_empty_without_folder(self) -> None:
        store = self.new()
        for number in (3, 1, 2):
            store.write(f"snapshots/{number}.json", b"")
        same(store.list("snapshots"), ["1.json", "2.json", "3.json"])
        same(store.list("nowhere"), [])
        same(store.list("snapshots/1.json"), [])

    def test_entries_are_the_names_at_the_top_or_are_not_known(self) -> None:
        store = self.new()
        store.write("functions/x.bin", b"1")
        found = list(store.entries())
        assert not found or (found == sorted(found) and "functions" in found), f"found {found}"

    def test_names_cannot_lead_out_of_the_store(self) -> None:
        store = self.new()
        for name in ESCAPES:
            with refused():
                store.read(name)
            with refused():
                store.write(name, b"")
            with refused():
                store.remove(name)
            with refused():
                store.create(name, b"")
            if not name.startswith(RESERVED):  # a store shows the files that it keeps for itself
                for look in (store.list, store.remove_tree):
                    with refused():
                        look(name)

    def test_reader_sees_old_or_new_while_a_file_is_replaced(self) -> None:
        store = self.new()
        contents = [bytes([65 + number]) * 50_000 for number in range(4)]
        store.write("study.json", contents[0])
        seen = set()
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                seen.add(store.read("study.json"))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(read)
            for number in range(self.repeats):
                store.write("study.json", contents[number % 4])
            done.set()
            reader.result()
        assert seen <= set(contents), "a reader saw neither the old content nor the new one"

    # Journal

    def test_segments_are_numbered_and_never_opened_twice(self) -> None:
        store = self.new()
        first, second = store.open_segment(), store.open_segment()
        same([first.name, second.name], ["000001.jsonl", "000002.jsonl"])
        first.append(b"a\n")
        second.append(b"b\n")
        first.append(b"c\nd\n")
        first.close()
        second.close()
        same(store.journal_segments(), ["000001.jsonl", "000002.jsonl"])
        same(list(store.read_segment("000001.jsonl")), [b"a\n", b"c\n", b"d\n"])
        same(list(store.read_segment("000002.jsonl")), [b"b\n"])

    def test_new_segment_is_empty(self) -> None:
        store = self.new()
        store.open_segment().close()
        same(list(store.read_segment("000001.jsonl")), [])

    def test_open_segment_can_be_read(self) -> None:
        store = self.new()
        segment = store.open_segment()
        for number in range(12):
            segment.append(b'{"n":%d}\n' % number)
            same(list(store.read_segment(segment.name))[-1], b'{"n":%d}\n' % number)
        same(len(list(store.read_segment(segment.name))), 12)
        segment.close()

    def test_long_lines_stay_whole(self) -> None:
        store = self.new()
        segment = store.open_segment()
        lines = [b"x" * (3 << 20) + b"\n", b"y\n", b"\n", b"z" * (1 << 20) + b"\n"]
        segment.append(b"".join(lines[:2]))
        segment.append(b"".join(lines[2:]))
        segment.close()
        same(list(store.read_segment(segment.name)), lines)

    def test_the_journal_grows_with_every_append_and_every_segment_counts(self) -> None:
        store = self.new()
        sizes = [store.journal_size()]
        for _ in range(2):
            segment = store.open_segment()
            for line in (b"a\n", b"bcd\n"):
                segment.append(line)
                sizes.append(store.journal_size())
            segment.close()
        same(sizes, [0, 2, 6, 8, 12])

    def test_closed_segment_takes_no_more(self) -> None:
        store = self.new()
        segment = store.open_segment()
        segment.append(b"a\n")
        segment.close()
        segment.close()
        with refused():
            segment.append(b"b\n")
        same(list(store.read_segment(segment.name)), [b"a\n"])

    def test_missing_segment_is_an_error_at_once(self) -> None:
        store = self.new()
        for name in ["000009.jsonl", "../study.json", "1.jsonl", ""]:
            with refused():
                store.read_segment(name)

    def test_segments_opened_at_the_same_moment_differ(self) -> None:
        store = self.new()
        names: list[str] = []

        def begin(number: int) -> None:
            segment = store.open_segment()
            segment.append(b"%d\n" % number)
            segment.close()
            names.append(segment.name)

        together(8, begin)
        same(sorted(names), store.journal_segments())
        same(sorted(b"".join(store.read_segment(name)) for name in names), [b"%d\n" % n for n in range(8)])

    def test_segment_number_with_seven_digits_comes_last(self) -> None:
        store = self.new()
        store.write("journal/999999.jsonl", b"a\n")
        store.write("journal/notes.txt", b"not ours")
        segment = store.open_segment()
        segment.close()
        same(segment.name, "1000000.jsonl")
        same(store.journal_segments(), ["999999.jsonl", "1000000.jsonl"])

    def test_the_head_that_was_noted_last_is_read_back(self) -> None:
        store = self.new()
        store.prepare()
        for content in (b"1", b"2"):
            head = store.open_head()
            for last in (b"a", b"b"):
                head.note(content * 99 + last)
            head.close()
            head.close()
            same(store.read("head.json"), content * 99 + b"b")

    # Lock

    def test_second_driver_is_refused_and_learns_who_holds_the_lock(self) -> None:
        store = self.new()
        other = copy_of(store)
        with store.lock():
            with refused(StoreLockedError), other.lock():
                pass
            segment = store.open_segment()
            segment.append(b"a\n")
            segment.close()
        with other.lock(), refused(StoreLockedError), store.lock():
            pass
        with store.lock():
            pass

    def test_one_of_many_gets_the_lock(self) -> None:
        store = self.new()
        holding = threading.Barrier(6)
        won: list[int] = []

        def meet() -> None:
            with suppress(threading.BrokenBarrierError):
                holding.wait()

        def attempt(number: int) -> None:
            other = copy_of(store)
            try:
                with other.lock():
                    won.append(number)
                    meet()
            except StoreLockedError:
                meet()
            except BaseException:
                holding.abort()  # else the others would wait for this one for ever
                raise

        together(6, attempt)
        same(len(won), 1)

    def test_lock_is_given_back_after_an_error(self) -> None:
        store = self.new()
        with suppress(KeyError), store.lock():
            raise KeyError
        with store.lock():
            pass

    # Logs

    def test_log_gives_back_its_lines(self) -> None:
        store = self.new()
        same(list(store.read_log("trial-7")), [])
        store.append_log("trial-7", [])
        store.append_log("trial-7", ["a", "", "ü \t'\"\r"])
        store.append_log("trial-7", ["b"])
        store.append_log("trial-77", ["other"])
        same(list(store.read_log("trial-7")), ["a", "", "ü \t'\"\r", "b"])

    def test_log_takes_what_is_not_text(self) -> None:
        store = self.new()
        store.append_log("trial-7", [b"\xff\xfe".decode(errors="surrogateescape"), "next"])
        same(list(store.read_log("trial-7"))[1], "next")

    def test_lines_of_all_trials_that_one_driver_after_another_writes_are_read_trial_by_trial(self) -> None:
        store = self.new()
        expected: dict[str, list[str]] = {f"trial-{number}": [] for number in range(20)}
        for driver in range(2):
            log = store.open_log()
            for block in range(3):
                lines = {name: [f"{driver} {block} {name}"] for name in expected}
                log.write(lines)
                for name, ones in lines.items():
                    expected[name] += ones
            log.close()
        for name, ones in expected.items():
            same(list(store.read_log(name)), ones)
        same(list(store.read_log("trial-20")), [])

    def test_a_part_of_a_file_is_what_a_slice_of_it_is(self) -> None:
        store = self.new()
        store.write("study.json", b"0123456789")
        for start, end in [(0, None), (3, 7), (-4, None), (-99, None), (8, 99), (10, None), (4, 4)]:
            same(store.read_part("study.json", start, end), b"0123456789"[start:end])
        same(store.read_part("other.json", 0), None)

    def test_log_names_are_plain_words(self) -> None:
        store = self.new()
        for name in LOG_NAMES:
            with refused():
                store.append_log(name, ["x"])
            with refused():
                store.read_log(name)

    def test_lines_of_many_threads_stay_whole_and_in_order(self) -> None:
        store, count = self.new(), self.repeats // 2

        def write(number: int) -> None:
            for line in range(count):
                store.append_log("trial-1", [f"{number} {line} {'x' * 200}", f"{number} {line} second"])

        together(4, write)
        lines = list(store.read_log("trial-1"))
        same(len(lines), 8 * count)
        for number in range(4):
            mine = [line.split()[1] for line in lines if line.startswith(f"{number} ") and line.endswith("x")]
            same(mine, [str(line) for line in range(count)])
        pairs = zip(lines[::2], lines[1::2], strict=True)
        same([pair for pair in pairs if pair[0].split()[:2] != pair[1].split()[:2]], [])
