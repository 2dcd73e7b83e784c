"""``python -m asyncsearch.runner CONTROL LIFELINE PARENT`` is the process that an agent starts."""

import sys

from asyncsearch.runner.runner import main

if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
