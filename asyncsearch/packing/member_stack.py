"""Alike members as one computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing.alike.member_marks import MemberMarks
from asyncsearch.packing.alike.model_refusals import padding_refusal
from asyncsearch.packing.member import GradientScales, Member, autocast_of, scales_of
from asyncsearch.packing.stack.optimizer_rows import OptimizerRows, trained_parameters
from asyncsearch.packing.stack.sample_masks import batch_length, first_samples, stacked_batches
from asyncsearch.packing.stack.stacked_model import StackedModel
from asyncsearch.packing.step_failures import NO_WATCH, NoWatch, StepWatch, vmap_words


class MemberStack:
    """K members of one structure: weights, buffers and optimizers as rows, one forward and backward pass a step."""

    _rows: OptimizerRows
    _fixed: dict[str, Any]
    _views: dict[str, Any]
    _viewed: Any = None
    _scales: GradientScales | None = None
    _step_watch: StepWatch | None = None
    is_tried = False
    """Whether somebody has seen that members of this structure can be trained as one computation."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members: list[Member] = []
        self._marks: dict[Member, MemberMarks] = {}
        member = members[0]
        self._model = StackedModel(member)
        self._parameters = trained_parameters(member.model, member.optimizer)
        trained = {parameter.name for parameter in self._parameters}
        self._fixed_names = [name for name, _ in member.model.named_parameters() if name not in trained]
        self._buffer_names = [name for name, _ in member.model.named_buffers()]
        self.join(members)

    def join(self, members: Sequence[Member]) -> None:
        """Copy members of the same structure into rows after the present ones."""
        self._write_scales()
        rows = [OptimizerRows(member.optimizer, self._parameters) for member in members]
        fixed = [self._others(member) for member in members]
        if self.members:
            self._rows.append(rows)
            fixed = [self._fixed, *fixed]
        else:
            self._rows = rows[0]
            self._rows.append(rows[1:])
        self._fixed = {name: torch.cat([part[name] for part in fixed]) for name in fixed[0]}
        self._changed([*self.members, *members])

    def leave(self, members: Sequence[Member], *, is_written: bool = True) -> None:
        """Drop the rows of members; ``is_written``: write them into their own models and optimizers before."""
        if is_written:
            self._write_scales()
        for member in members if is_written else ():
            self.sync(member)
        kept = [row for row, member in enumerate(self.members) if member not in members]
        self._rows.keep(kept)
        chosen = torch.tensor(kept, dtype=torch.long, device=self._rows.weights.device)
        self._fixed = {name: tensor[chosen] for name, tensor in self._fixed.items()}
        self._changed([self.members[row] for row in kept])

    def sync(self, member: Member) -> None:
        """Write the state of a member into its own model and optimizer; it stays."""
        row = self.members.index(member)
        self._rows.write(row)
        if member.keeps_grads:
            self._rows.write_grads(row)
        if self._scales is not None:
            self._scales.write(row)
        with torch.no_grad():
            for name, tensor in self._own_others(member).items():
                tensor.copy_(self._fixed[name][row])

    def load(self, member: Member) -> None:
        """Take the state of a member from its own model and optimizer."""
        row = self.members.index(member)
        self._rows.take(row, member.optimizer)
        for name, tensor in self._others(member).items():
            self._fixed[name][row] = tensor[0]
        if self._scales is not None:
            self._scales.take(row)

    def is_current(self, member: Member) -> bool:
        """Return whether a member has the structure with which it joined."""
        return self._marks[member].is_current()

    def retake(self) -> bool:
        """Take the state of all members from their own models and optimizers; False if some may be unlike now."""
        is_spoiled = self._step_watch is not None and self._step_watch.is_spoiled
        if is_spoiled or not all(marks.is_current() for marks in self._marks.values()):
            return False
        self._rows.take_all()
        others = [self._own_others(member) for member in self.members]
        for name, tensor in self._fixed.items():
            torch.stack([one[name].detach() for one in others], out=tensor)
        if self._scales is not None:
            for row in range(len(self.members)):
                self._scales.take(row)
        return True

    def step(self, batches: Sequence[Any]) -> Any:
        """Train each member by one step, and return their losses, (K,).

        Args:
            batches: one that all share, or one for each member.
        """
        batch, is_shared, sizes = self._stacked(batches)
        words = None if sizes is None else padding_refusal(self.members[0], sizes)
        if words is not None:
            raise UsageError(words)
        losses = self._train(batch, is_shared, sizes)
        for member in self.members:
            member.taken += 1
        return losses

    def _train(self, batch: Any, is_shared: bool, sizes: list[int] | None) -> Any:
        watch = self._watch(batch)
        try:
            with autocast_of(self.members[0]), watch.watching():
                losses = self._losses(batch, is_shared, sizes)
            scaled = losses if self._scales is None else self._scales.scaled(losses)
            names = [parameter.name for parameter in self._parameters]
            leaves = [self._leaves[name] for name in names]
            # The sum, not the mean: each member has the gradient of its own loss, not a K-th of it.
            grads = torch.autograd.grad(scaled, leaves, torch.ones_like(scaled), allow_unused=True)
        except RuntimeError as error:
            words = vmap_words(error)
            if words is None:
                raise
            raise UsageError(words) from error
        with torch.no_grad():
            self._rows.update(grads, self._limits(), self._scales)
        return losses.detach()

    def validated(self, batch: Any) -> tuple[Any, Any]:
        """Return the losses of all members on a batch in evaluation mode, (K,), and how many right answers, (K,).

        Returns:
            The second is None where the loss is not the default one.

        Raises:
            UsageError: each must compute them by itself.
        """
        with self._watch(batch).watching():
            return self._model.validated({**self._fixed, **self._leaves}, batch)

    def state_of_all(self) -> list[Any]:
        """Return copies of the weights, and of all that no optimizer changes."""
        return [self._rows.weights.clone(), *(tensor.clone() for tensor in self._fixed.values())]

    def is_as(self, state: list[Any]) -> bool:
        """Return whether the weights, and all that no optimizer changes, are as ``state_of_all`` has found them."""
        return all(map(torch.equal, state, [self._rows.weights, *self._fixed.values()]))

    def _watch(self, batch: Any) -> NoWatch:
        """Return the watch over the user's code in a step, which may do things for one member only."""
        if not self._model.runs_users_code(batch):
            return NO_WATCH
        if self._step_watch is None:
            self._step_watch = StepWatch(self._model.template, self.members)
        return self._step_watch

    @property
    def _leaves(self) -> dict[str, Any]:
        """The trained parameters by name, (K, ...): views of the weights."""
        if self._viewed is not self._rows.weights:
            self._viewed, self._views = self._rows.weights, self._rows.views()
        return self._views

    def _losses(self, batch: Any, is_shared: bool, sizes: list[int] | None) -> Any:
        losses = self._model.losses({**self._fixed, **self._leaves}, batch, is_shared, sizes)
        if losses.shape != (len(self.members),):
            raise UsageError(
                f"loss(model, batch) returned a tensor of shape {tuple(losses.shape[1:])} for a member: return the "
                "mean over the samples, a 0-dimensional tensor."
            )
        return losses

    def _stacked(self, batches: Sequence[Any]) -> tuple[Any, bool, list[int] | None]:
        limits = [member.batch_size for member in self.members]
        if len(batches) == 1 and not any(limits):
            return batches[0], True, None
        if len(batches) == 1:
            length = batch_length(batches[0])
            sizes = [min(limit or length, length) for limit in limits]
            batch = first_samples(batches[0], max(sizes))
            return batch, True, None if min(sizes) == max(sizes) else sizes
        pairs = zip(batches, limits, strict=True)
        batch, sizes_found = stacked_batches(
            [one if limit is None else first_samples(one, limit) for one, limit in pairs]
        )
        return batch, False, sizes_found

    def _limits(self) -> Any:
        limits = [member.clip_grad_norm for member in self.members]
        return None if not any(limits) else np.array([np.inf if limit is None else limit for limit in limits])

    def _others(self, member: Member) -> dict[str, Any]:
        """Return copies of all that the optimizer does not change, (1, ...)."""
        return {name: one.detach().clone()[None].contiguous() for name, one in self._own_others(member).items()}

    def _own_others(self, member: Member) -> dict[str, Any]:
        """Return the tensors that the optimizer of a member does not change: untrained parameters, and buffers."""
        if not self._fixed_names and not self._buffer_names:
            return {}
        parameters, buffers = dict(member.model.named_parameters()), dict(member.model.named_buffers())
        return {name: parameters[name] for name in self._fixed_names} | {n: buffers[n] for n in self._buffer_names}

    def _changed(self, members: list[Member]) -> None:
        self.members = members
        self._marks = {member: self._marks.get(member) or MemberMarks(member) for member in members}
        self._model.take_losses(members[0])
        self._model.masks.models = [member.model for member in members]
        self._model.masks.generators = [member.generator for member in members]
        self._viewed = None
        self._step_watch = None
        self._rows.keeps_grads = any(member.keeps_grads for member in members)
        self._scales = scales_of([member.scaler for member in members])

    def _write_scales(self) -> None:
        """Give the scalers the states that they have here: they are taken anew when members come and go."""
        if self._scales is not None:
            for row in range(len(self.members)):
                self._scales.write(row)
