"""Generate the stubs in asyncsearch/rpc/pb from rpc/search.proto, or check that they are up to date.

python scripts/gen_proto.py           write them
python scripts/gen_proto.py --check   write nothing; exit with 1 if they differ

The generator is pinned: a stub can be imported only if protobuf and grpcio are at least as new as its generator.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

PINNED = "1.67.1"
ROOT = Path(__file__).resolve().parent.parent
CONTRACT = "rpc/search.proto"
PACKAGE = "asyncsearch/rpc/pb"
STUBS = ("search_pb2.py", "search_pb2.pyi", "search_pb2_grpc.py")


def installed_generator() -> str | None:
    """Return the installed version of grpcio-tools, or None."""
    try:
        return importlib.metadata.version("grpcio-tools")
    except importlib.metadata.PackageNotFoundError:
        return None


def generate(root: Path) -> dict[str, bytes]:
    """Return each stub that the contract under ``root`` generates, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        # `-I virtual=disk` makes protoc write imports of asyncsearch.rpc.pb and register the file under that name.
        outputs = [f"--{kind}={folder}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", f"{PACKAGE}=rpc", *outputs, CONTRACT]
        if subprocess.run(command, cwd=root, check=False).returncode:
            sys.exit(f"gen_proto: protoc refused {CONTRACT}; see its message above.")
        return {name: Path(folder, PACKAGE, name).read_bytes() for name in STUBS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the stubs differ")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: this one)")
    arguments = parser.parse_args()

    generator = installed_generator()
    if generator is None and arguments.check and sys.version_info >= (3, 14):
        print(f"gen_proto: not checked: grpcio-tools {PINNED} has no build for Python 3.14; use 3.11 to 3.13.")
        return 0
    if generator != PINNED:
        found = f"grpcio-tools {generator}" if generator else "no grpcio-tools"
        sys.exit(f"gen_proto: found {found}, need {PINNED}; `bash scripts/setup.sh dev` installs it.")
    if not (arguments.root / CONTRACT).is_file():
        sys.exit(f"gen_proto: {arguments.root / CONTRACT} is missing.")

    generated = generate(arguments.root)
    paths = {arguments.root / PACKAGE / name: content for name, content in generated.items()}
    stale = [path for path, content in paths.items() if not path.is_file() or path.read_bytes() != content]
    if arguments.check:
        for path in stale:
            print(f"gen_proto: {path.relative_to(arguments.root)} is not what {CONTRACT} generates.")
        if stale:
            print("gen_proto: run scripts/gen_proto.py and commit what it writes.")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(paths[path])
        print(f"gen_proto: wrote {path.relative_to(arguments.root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
