"""What the conformance suites have in common: laws are methods named ``test_...``, and no test runner is needed."""

from __future__ import annotations


class Suite:
    """A set of laws. pytest finds them in a subclass whose name begins with ``Test``; ``run`` tries them without."""

    def run(self) -> list[str]:
        """Try every law and return their names.

        Raises:
            AssertionError: one does not hold.
        """
        names = [name for name in dir(self) if name.startswith("test_")]
        for name in names:
            getattr(self, name)()
        return names
