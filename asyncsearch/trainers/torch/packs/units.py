"""Units of training of several ``TorchTrainer`` together: each as in its own ``train``, within rounding.

Pseudocode of a unit::

    for each trainer: its generator := the seed of its unit; its batches := those of its own ``train``
    while a trainer has batches left:
        trainers that have none leave until the end of the unit
        each applies its values at this fraction of the unit to its optimizer
        before the first step: alike ones become one computation, as ``unit_terms`` says
        one step of the pack, on a batch that is read once for all who see the same samples
    those that could not be computed together after all train their unit by themselves, from its beginning;
        an error of one that trains by itself is its own
    the state of each is in its own ``net`` and ``opt`` again, so ``evaluate`` and ``save`` are those of the trainer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.packing.member import Member
from asyncsearch.packing.packs import Pack
from asyncsearch.packing.step_failures import FailedStep
from asyncsearch.trainers.torch.packs.evaluation import metrics_together
from asyncsearch.trainers.torch.packs.refusals import has_own_hooks, is_member_of, member_of, why_not_together
from asyncsearch.trainers.torch.packs.shared_samples import EqualData, PackedUnit, SampleLine, UnitSeeds, sample_lines
from asyncsearch.trainers.torch.packs.unit_terms import UnitTerms
from asyncsearch.trainers.turns import end_turn, leave_states
from asyncsearch.trainers.unit_errors import fail


class PackedTrainers:
    """Trainers that train together. Each was set up, and loaded where it continues; its own interface stays usable."""

    has_stepped = False
    """Whether a step was made since somebody has set it to false."""

    def __init__(self, trainers: Sequence[Any]) -> None:
        """Take trainers in.

        Raises:
            UsageError: they cannot be packed, and why.
        """
        words = why_not_together(trainers)
        if words is not None:
            raise UsageError(f"These trainers cannot be packed: {words}.")
        self.trainers: list[Any] = []
        self._members: dict[int, Member] = {}
        self._pack = Pack([])
        self._equal = EqualData()
        self._terms = UnitTerms(self._pack, type(trainers[0]))
        self.join(*trainers)

    def join(self, *trainers: Any) -> None:
        """Take more trainers in, in their present state."""
        found = [member_of(trainer) for trainer in trainers]
        self._pack.join(*found)
        self._members |= {id(trainer): member for trainer, member in zip(trainers, found, strict=True)}
        self.trainers += trainers

    def leave(self, *trainers: Any) -> None:
        """Let trainers out, between two units: what counts is what each has."""
        self._pack.forget([self._members.pop(id(trainer)) for trainer in trainers], is_between=True)
        self.trainers = [one for one in self.trainers if id(one) in self._members]
        self._equal = EqualData()  # it knows data by their ids, and those of the trainers that left may end

    def train(self) -> None:
        """Train each trainer by one unit; afterwards ``evaluate`` and ``save`` of each are as after its own unit.

        Between units the trainers own their state, whatever code has changed it: it is taken anew.
        """
        end_turn()
        self._retake()
        seeds = UnitSeeds()
        units = [PackedUnit(trainer, self._members[id(trainer)], seeds) for trainer in self.trainers]
        failed = self._step_through(units)
        self._pack.sync()
        for unit in units:
            if unit in failed:
                if unit.error is None:
                    unit.train_alone()
                else:
                    fail(unit.trainer, unit.error)
                self._pack.join(unit.member)
            else:
                unit.trainer.samples = unit.start + unit.size
                leave_states(unit.trainer, unit.generators.left)

    def evaluate(self) -> list[Mapping[str, Any]]:
        """Return the metrics of each trainer after a unit, as its own ``evaluate`` does, within rounding."""
        found = self.evaluated()
        for one in found:
            if isinstance(one, Exception):
                raise one
        return [one for one in found if not isinstance(one, Exception)]

    def evaluated(self) -> list[Mapping[str, Any] | Exception]:
        """Return the metrics of each trainer after a unit, or the error of its ``evaluate``."""
        return metrics_together(self.trainers, self._members, self._pack, self._equal, self._terms.has_loss_as_trained)

    def unfit(self) -> list[tuple[Any, str]]:
        """Return the trainers that train by themselves whomever they are with, and why; known after a unit."""
        words = self._pack.unfit()
        own = [(trainer, words.get(self._members[id(trainer)])) for trainer in self.trainers]
        return [(trainer, reason) for trainer, reason in own if reason is not None]

    def apart(self) -> str:
        """Return why not all trainers train as one computation, of one of them; empty: they do; known after a unit."""
        return self._pack.apart()

    def describe(self) -> list[str]:
        """Return sentences about what trains as one computation, and why the rest does not."""
        return self._pack.describe()

    def _retake(self) -> None:
        """Take the trainers as they are: their own code may have changed anything since the last unit."""
        for trainer in self.trainers:
            member = self._members[id(trainer)]
            if not is_member_of(member, trainer):
                self._members[id(trainer)] = replace(member_of(trainer), by_itself=member.by_itself)
            elif member.watch is not None:
                member.watch.renew()
        if any(map(has_own_hooks, self.trainers)):
            self._equal = EqualData()
        self._pack.retake([self._members[id(trainer)] for trainer in self.trainers])

    def _step_through(self, units: Sequence[PackedUnit]) -> list[PackedUnit]:
        """Make the steps of a unit; return the units of those that could not be computed together."""
        running, waiting, failed = sample_lines(units, self._equal), list[Member](), list[PackedUnit]()
        is_first = True
        while left := [line for line in running if line.units and line.advance()]:
            over = [unit.member for line in running if line not in left for unit in line.units]
            self._pack.leave_together(over)
            waiting += over
            running = left
            for line in running:
                failed += self._follow(line)
                line.units = [unit for unit in line.units if unit not in failed]
            running = [line for line in running if line.units]
            if not running:
                break
            failed += self._step(running, units if is_first else ())
            is_first = False
            for line in running:
                line.units = [unit for unit in line.units if unit not in failed]
        self._pack.join(*waiting)
        return failed

    def _follow(self, line: SampleLine) -> list[PackedUnit]:
        """Apply the values at this fraction of the unit; return the units that must be trained by themselves.

        Only values that are sequences change after its beginning.
        """
        failed = []
        for unit in line.units:
            trainer = unit.trainer
            if line.fraction and not trainer.trial.has_sequences:
                continue
            is_away = line.fraction > 0 and self._pack.is_in_stack(unit.member)
            words = unit.follow(line.fraction) if is_away else trainer._follow(line.fraction)
            unit.member.clip_grad_norm = trainer._largest_norm()
            has_other = trainer.opt is not unit.member.optimizer
            if is_away and (words or has_other or not self._pack.is_current(unit.member)):
                unit.member.by_itself = words or unit.member.by_itself
                self._pack.forget([unit.member])
                failed.append(unit)
            elif has_other:  # of another class, which begins with an empty state
                unit.member, unit.is_moved = self._replace(trainer), line.fraction > 0
        return failed

    def _step(self, lines: Sequence[SampleLine], first: Sequence[PackedUnit]) -> list[PackedUnit]:
        """Make a step of the units of some lines, the first one of some units; return those that have failed."""
        found = [(unit, batch) for line in lines for unit, batch in zip(line.units, line.batches(), strict=True)]
        batches = {unit.member: batch for unit, batch in found}
        if first:
            self._terms.begin(first, batches)
        self.has_stepped = True
        failures = self._pack.step_possible([batches[member] for member in self._pack.members])
        for unit, _ in found:
            unit.trainer.steps += 1
        return [unit for step in failures for unit in self._failed(step, [unit for unit, _ in found])]

    def _failed(self, step: FailedStep, units: Sequence[PackedUnit]) -> list[PackedUnit]:
        """Return those of some units that a step could not train."""
        found = [unit for unit in units if unit.member in step.members]
        if step.is_stack:
            self._terms.note_trap(step)
        for unit in found:
            if unit.is_moved or not step.is_stack:
                unit.error = UsageError(f"{step.words}.") if step.is_stack else step.error
        return found

    def _replace(self, trainer: Any) -> Member:
        """Let a trainer go on with the optimizer that it has now; its own model has its weights."""
        former = self._members[id(trainer)]
        self._pack.forget([former])
        member = self._members[id(trainer)] = replace(
            member_of(trainer),
            generator=former.generator,
            unit_generators=former.unit_generators,
            must_equal=former.must_equal,
            by_itself=former.by_itself,
        )
        self._pack.join(member)
        return member
