"""Whether members can be trained as one computation, by looking at them and by a step of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing.alike.model_refusals import conflict, refusal
from asyncsearch.packing.alike.structure import difference_between
from asyncsearch.packing.member import Member
from asyncsearch.packing.member_groups import LoneMember
from asyncsearch.packing.member_stack import MemberStack
from asyncsearch.packing.stack.sample_masks import batch_length, copied_batch, first_samples
from asyncsearch.packing.stack.stacked_model import copied
from asyncsearch.packing.unit_generators import outside_states, put_outside_states

_STEPS = 2
"""The second loss shows whether the first update was right."""
_TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-3}
_LOOSE = 5e-2
_SCALE = 128.0
"""The largest scale of a loss in this trial."""


def why_not(members: Sequence[Member], batch: Any = None) -> str | None:
    """Return why members cannot be trained as one computation, and what to change; None if they can.

    Without a batch only what can be seen in models and optimizers is judged. With one, copies of the members are
    trained by two steps together and alone, which also finds what ``forward`` and ``loss`` do: ``.item()``, a Python
    ``if`` on a value, a boolean mask, random numbers, values that only one member has.

    Args:
        members: at least one, in any state; they are not changed.
        batch: what ``loss(model, batch)`` takes.
    """
    for number, member in enumerate(members):
        words = refusal(member)
        if words is not None:
            return f"member {number}: {words}"
    for number, member in enumerate(members[1:], 1):
        words = difference_between(members[0], member)
        if words is not None:
            return f"members 0 and {number} differ: {words}"
    return conflict(members) or (None if batch is None else _tried(members, batch))


def does_padding_count(member: Member, batch: Any) -> bool:
    """Return whether a member learns otherwise from a batch if that is padded, as by a layer that mixes samples.

    Copies are trained by two steps on the batch and on its first half: together, so that the half is padded, and alone.

    Args:
        member: it can be trained with others; it is not changed.
        batch: what ``loss(model, batch)`` takes, of two samples or more.
    """
    half = first_samples(batch, batch_length(batch) // 2)
    return _compared([member, member], [batch, half]) is not None


def _tried(members: Sequence[Member], batch: Any) -> str | None:
    try:
        return _compared(members, [batch] * len(members))
    except UsageError as error:
        return str(error).rstrip(".")


def _compared(members: Sequence[Member], batches: Sequence[Any]) -> str | None:
    alone = [LoneMember(_copy(member)) for member in members]
    together = MemberStack([_copy(member) for member in members])
    for _ in range(_STEPS):
        before = outside_states()
        with torch.random.fork_rng(devices=[]):
            expected = torch.cat([one.step([copied_batch(batch)]) for one, batch in zip(alone, batches, strict=True)])
        if outside_states() != before:
            put_outside_states(before)
            return "its model or loss draws from the generator of Python or of numpy: draw such numbers in data()"
        is_one = all(batch is batches[0] for batch in batches)
        found = together.step([copied_batch(batch) for batch in (batches[:1] if is_one else batches)])
        words = _first_difference(expected, found, _LOOSE if members[0].precision else 0.0)
        if words is not None:
            return words
    for member, one, other in zip(members, alone, together.members, strict=True):
        words = difference_between(replace(member, watch=None), replace(one.members[0], watch=None))
        if words is not None:
            return f"training changes what members would share: before and after, {words}; make it a buffer"
        together.sync(other)
        words = _other_values(one.members[0], other)
        if words is not None:
            return words
    return None


def _other_values(alone: Member, together: Member) -> str | None:
    """Return which value that no optimizer changes differs after the steps, in words; None if none does."""
    trained = {id(parameter) for group in alone.optimizer.param_groups for parameter in group["params"]}
    theirs = dict((*together.model.named_parameters(), *together.model.named_buffers()))
    for name, one in (*alone.model.named_parameters(), *alone.model.named_buffers()):
        if id(one) not in trained and not _is_close(one.detach(), theirs[name].detach()):
            return (
                f"training changes {name!r} otherwise in a pack than alone: change it in place, by what is in the model"
            )
    return None


def _is_close(one: Any, other: Any) -> bool:
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    tolerance = _TOLERANCES.get(one.dtype, _LOOSE)
    return bool(torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True))


def _first_difference(expected: Any, found: Any, least: float) -> str | None:
    tolerance = max(least, _TOLERANCES.get(expected.dtype, _LOOSE))
    close = torch.isclose(expected, found.to(expected.dtype), rtol=tolerance, atol=tolerance, equal_nan=True)
    if bool(close.all()):
        return None
    number = int((~close).nonzero()[0])
    return (
        f"the loss of member {number} is {float(expected[number]):.6g} alone and {float(found[number]):.6g} in a pack: "
        "its model or loss reads something that is not a parameter, a buffer or the batch; pass it in one of these"
    )


def _copy(member: Member) -> Member:
    model, optimizer, scaler = copied(member.model, (member.model, member.optimizer, member.scaler))
    if scaler is not None and scaler.is_enabled():
        # By a large scale, both may skip their steps, which would not show whether an update is right.
        scaler.load_state_dict(scaler.state_dict() | {"scale": min(scaler.get_scale(), _SCALE)})
    generator = None
    if member.generator is not None:
        generator = torch.Generator(member.generator.device)
        generator.set_state(member.generator.get_state())
    loss, sample_losses = member.watched_losses()
    return replace(
        member,
        model=model,
        optimizer=optimizer,
        scaler=scaler,
        generator=generator,
        unit_generators=None,
        loss=loss,
        sample_losses=sample_losses,
    )
