"""What stores of every kind require of a checkpoint that several workers write, each its shard."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.errors import CheckpointError, StoreError
from asyncsearch.ids import CheckpointRef
from asyncsearch.store.manifest import Manifest, Shards


def require_shards(shards: Shards | None, manifest: Manifest, checkpoint: CheckpointRef) -> None:
    """Check that all shards are among the files of a checkpoint that is to be committed.

    Raises:
        StoreError: one is missing.
    """
    missing = set() if shards is None else shards.by_name.keys() - {file.name for file in manifest.files}
    if missing:
        raise StoreError(
            f"Cannot commit checkpoint {checkpoint}: the shards {sorted(missing)} of other workers have vanished. Check"
            " that no other driver opened the study; then commit again."
        )


def require_apart(
    shards: Shards | None, names: Sequence[str], folders: Sequence[str], checkpoint: CheckpointRef
) -> None:
    """Check that no worker has written a file where another one has written a file or a folder.

    Args:
        shards: what other workers have added; None: there are none.
        names: the names of the files of the worker that commits.
        folders: those of its folders.
        checkpoint: for the message.

    Raises:
        CheckpointError: one has.
    """
    taken: set[str] = set()
    above = set(folders)
    for name in () if shards is None else (*names, *(file.name for file in shards.files)):
        if name in taken:
            raise written_twice(checkpoint, name)
        taken.add(name)
        above.update(name[:at] for at, letter in enumerate(name) if letter == "/")
    for name in sorted(taken & above):
        raise written_twice(checkpoint, name)


def gone(checkpoint: CheckpointRef, place: object) -> CheckpointError:
    """Return the error for shards whose place is not there any more."""
    return CheckpointError(
        f"There is no place {str(place)!r} for a shard of checkpoint {checkpoint}: the worker that is to commit it has"
        " given it up, or does not share this folder. All workers must see the same store."
    )


def written_twice(checkpoint: CheckpointRef, name: str) -> CheckpointError:
    """Return the error for a file that two workers have written, or one in the place of the other's folder."""
    return CheckpointError(
        f"Two workers have written {name!r} of checkpoint {checkpoint}. Let save() give each rank's file a name of its"
        " own."
    )
