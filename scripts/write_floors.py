"""Write the floors of the contracts in pyproject.toml into CONTRIBUTING.md, or check that they are up to date.

python scripts/write_floors.py          write it
python scripts/write_floors.py --check  write nothing; exit with 1 if the table differs
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- scripts/write_floors.py writes from here -->\n", "<!-- to here -->\n"


def floors(contracts: list[dict[str, Any]]) -> str:
    """Return the layers as a table, the highest one first, and the names of the other contracts as a list."""
    layers = next(contract for contract in contracts if contract["id"] == "floors")["layers"]
    modules = [", ".join(f"`{name}`" for name in re.findall("[a-z_]+", layer)) for layer in layers]
    rows = [f"| {number} | {names} |" for number, names in zip(reversed(range(len(layers))), modules, strict=True)]
    names = [f"- {contract['name']}." for contract in contracts if contract["id"] != "floors"]
    return "\n".join(["| floor | modules |", "|---|---|", *rows, "", "The other contracts:", "", *names, ""])


def rewritten(page: str) -> str:
    """Return the page with the current table between its two marks."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{floors(contracts)}\n{END}{rest.split(END)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the table differs")
    page = PAGE.read_text(encoding="utf-8")
    wanted = rewritten(page)
    if parser.parse_args().check:
        if page != wanted:
            print("CONTRIBUTING.md does not have the floors of pyproject.toml: run python scripts/write_floors.py.")
        return int(page != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
