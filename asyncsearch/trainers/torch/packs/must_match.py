"""Which trainers of a pack train as one computation in a unit: known at its first batches, before its first step.

Pseudocode::

    what a trainer's loss reads, and what its batches are where those of the pack differ, must match
    members for which that has changed are grouped anew
    of each structure that this process has not seen, copies are trained together and alone;
        where that fails or differs, its members train by themselves
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.events import is_of_all
from asyncsearch.packing.alike.model_refusals import padding_trap, refusal
from asyncsearch.packing.alike.structure import is_equal
from asyncsearch.packing.member import Member
from asyncsearch.packing.packs import Pack
from asyncsearch.packing.probe import does_padding_count, why_not
from asyncsearch.packing.stack.activations import DROPOUTS
from asyncsearch.packing.stack.optimizer_rows import trained_parameters
from asyncsearch.packing.stack.sample_masks import kinds_of
from asyncsearch.packing.stack.update_rules import RULES
from asyncsearch.packing.step_failures import FailedStep
from asyncsearch.trainers.packs.pack_training import known_of
from asyncsearch.trainers.torch.packs.loss_reads import ReadsDifferError, SeenLosses, as_before, reads_of
from asyncsearch.trainers.torch.packs.samples import PackedUnit

_MOST_TRIED = 4
"""Members of which copies are trained: more of them would find nothing else."""
_MIXED = (
    "with padding the model trains otherwise, so it mixes samples, or sample_losses() is not what loss() is the mean "
    "of: pack members of one batch size"
)


class MustMatch:
    """Groups the members of one pack of trainers at the beginning of each unit."""

    def __init__(self, pack: Pack, kind: type) -> None:
        self._pack, self._known = pack, known_of(kind)
        self._losses = SeenLosses(reads_of(kind))

    def begin(self, units: Sequence[PackedUnit], batches: Mapping[Member, Any]) -> None:
        """Group members; ``batches`` has the first one of the unit for each."""
        if self._set(units, batches):
            self._pack.regroup()
        if [stack for stack in self._pack.stacks() if not self._can_train(stack, units[0].trainer, batches)]:
            self._pack.regroup()

    def has_loss_as_trained(self, trainer: Any) -> bool:
        """Return whether all that the loss of a trainer is known to read is as at the beginning of its unit."""
        return self._losses.is_as_seen(trainer)

    def note_trap(self, step: FailedStep) -> None:
        """Let members train by themselves, and those of their structure in later packs if it is due to that."""
        if isinstance(step.error, ReadsDifferError):
            return  # from the next unit on, they are no longer one computation
        for member in step.members:
            member.by_itself = step.words
        if isinstance(step.error, UsageError):
            self._known.traps.note(structure_key(step.members[0]), step.words)

    def _set(self, units: Sequence[PackedUnit], batches: Mapping[Member, Any]) -> bool:
        """Set the values that must match for each member; return whether any have changed."""
        owners = {id(unit.trainer): unit for unit in units}
        trainers = {number: unit.trainer for number, unit in owners.items()}
        self._losses.look(trainers, lambda one: owners[id(one)].batches_of_each_size(batches[owners[id(one)].member]))
        of_sizes, of_kinds = self._of_sizes(units, batches), _of_kinds(units, batches)
        is_changed = False
        for unit in units:
            member, (of_loss, own) = unit.member, self._losses.of(unit.trainer)
            found = {**of_loss, **of_sizes.get(member, {}), **of_kinds.get(member, {})}
            own = own or member.by_itself
            is_changed |= own != member.by_itself or not is_equal(member.must_match, found)
            member.must_match, member.by_itself = found, own
        return is_changed

    def _of_sizes(self, units: Sequence[PackedUnit], batches: Mapping[Member, Any]) -> dict[Member, dict[str, Any]]:
        """Return the sizes of batches that must match, for members that padding would change."""
        if len({unit.sizes for unit in units}) == 1:
            return {}
        differ_in_batch_size = len({unit.sizes[1:] for unit in units}) == 1
        traps = [(unit, self._padding_trap(unit, batches[unit.member])) for unit in units]
        return {
            unit.member: {f"the size of batches ({trap})": unit.batch_size if differ_in_batch_size else unit.sizes}
            for unit, trap in traps
            if trap is not None
        }

    def _padding_trap(self, unit: PackedUnit, batch: Any) -> str | None:
        """Return why the padding of a batch would count, or None; each structure is tried once in a process."""
        member = unit.member
        trap = padding_trap(member)
        if trap is not None or member.by_itself or refusal(member) is not None:
            return trap

        def tried() -> str | None:
            with as_before(unit.trainer):
                return _MIXED if _is_mixed(member, batch) else None

        return self._known.paddings.found(structure_key(member), tried)

    def _can_train(self, stack: Any, trainer: Any, batches: Mapping[Member, Any]) -> bool:
        """Return whether members of a stack may train as one; if not, let them train by themselves."""
        if stack.is_tried:
            return True
        stack.is_tried = True
        members = stack.members

        def tried() -> str:
            with as_before(trainer):
                return why_not(members[:_MOST_TRIED], batches[members[0]]) or ""

        try:
            words = self._known.traps.found(structure_key(members[0]), tried)
        except Exception as error:  # of one of them, which is found as each trains by itself
            if is_of_all(error):
                raise
            self.note_trap(FailedStep(members, error, is_stack=True))
            return False
        for member in members:
            member.by_itself = words
        return not words


def _is_mixed(member: Member, batch: Any) -> bool:
    try:
        return does_padding_count(member, batch)
    except Exception as error:  # which its own training or the trial of its pack finds, and tells better
        if is_of_all(error):
            raise
        return False


def _of_kinds(units: Sequence[PackedUnit], batches: Mapping[Member, Any]) -> dict[Member, dict[str, Any]]:
    """Return the kinds of batches that must match, where those of the units cannot be put into one tensor."""
    if len({id(batches[unit.member]) for unit in units}) > 1:
        kinds = [kinds_of(batches[unit.member]) for unit in units]
        if any(not is_equal(kind, kinds[0]) for kind in kinds):
            return {unit.member: {"what a batch holds": kind} for unit, kind in zip(units, kinds, strict=True)}
    return {}


_PLAIN = (int, float, bool, str, type(None), tuple)


def structure_key(member: Member) -> Hashable:
    """Return the key of a member that can be trained with others, so that one structure is tried once in a process.

    Members of one structure have equal keys; the other way round it holds but for values that have no short text, such
    as tensors in attributes of layers.
    """
    model, optimizer = member.model, member.optimizer
    tensors = (*model.named_parameters(), *model.named_buffers())
    shapes = tuple((name, one.shape, one.dtype, one.device, one.requires_grad) for name, one in tensors)
    common = repr([group[name] for group in optimizer.param_groups for name in RULES[type(optimizer)].common])
    layers = tuple(_layer_key(name, module) for name, module in model.named_modules())
    trained = type(optimizer), common, tuple(trained_parameters(model, optimizer))
    functions = tuple(_function_key(one) for one in (member.loss, member.sample_losses))
    return layers, shapes, trained, functions, member.precision, member.scaler is None


def _layer_key(name: str, module: Any) -> Hashable:
    return name, type(module), module.training, tuple(_attributes(module))


def _attributes(module: Any) -> Iterator[tuple[str, Hashable]]:
    for name, value in vars(module).items():
        if name.startswith("_") or (name == "p" and type(module) in DROPOUTS):
            continue
        yield name, repr(value) if isinstance(value, _PLAIN) else _function_key(value)


def _function_key(value: Any) -> Hashable:
    code: Hashable = getattr(getattr(value, "__func__", value), "__code__", None)
    return str(type(value)) if code is None else code
