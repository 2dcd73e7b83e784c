"""``python -m asyncsearch`` is the same as ``asyncsearch``."""

import sys

from asyncsearch.cli import main

if __name__ == "__main__":
    sys.exit(main())
