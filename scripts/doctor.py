"""Look at a cluster before a search: `asyncsearch doctor`, as a script that spark-submit takes.

bash scripts/submit_yarn.sh scripts/doctor.py hdfs:///studies/digits
spark-submit --master spark://host:7077 scripts/doctor.py /shared/studies/digits
"""

from __future__ import annotations

import sys

from asyncsearch.cli import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
