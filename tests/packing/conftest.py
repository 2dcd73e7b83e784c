"""One thread and one seed of torch for each test, and the generator of the process as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # else the models of a test would depend on the tests before it
        yield
    torch.set_num_threads(before)
