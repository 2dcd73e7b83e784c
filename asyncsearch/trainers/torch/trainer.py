"""A trainer for PyTorch: you write model, optimizer and data, and resuming is bit-identical."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from asyncsearch.errors import UsageError
from asyncsearch.trainable import PackOutcome, SaveFunction
from asyncsearch.trainable.gang import TrialGang
from asyncsearch.trainers.base_trainer import EVALUATION_BATCH, FrameworkTrainer, checked_norm
from asyncsearch.trainers.ranks import share_of
from asyncsearch.trainers.sample_order import Indices
from asyncsearch.trainers.torch.batches import batch_of, joined, length_of, moved
from asyncsearch.trainers.torch.gangs.strategies import strategy_for, strategy_refusal
from asyncsearch.trainers.torch.gangs.strategy import TorchStrategy
from asyncsearch.trainers.torch.loaders import KeptLoader, load_by_new
from asyncsearch.trainers.torch.state_copy import copied
from asyncsearch.trial import Params


class TorchTrainer(FrameworkTrainer):
    """One network; override ``model``, ``optimizer`` and ``data``, and any other default.

    ``optimizer`` is called again whenever a value changes, and the settings of its parameter groups are copied to those
    of the current optimizer, which keeps its state. An optimizer of another class begins with an empty state.
    """

    device: str | None = None
    """The device to train on; None for ``cuda`` if available, else ``cpu``."""
    precision: str | None = None
    """``float16`` (with a gradient scaler) or ``bfloat16`` for mixed precision."""
    deterministic: bool = True
    """Whether torch refuses operations whose results differ from run to run."""
    threads: int | None = 1
    """Threads of torch on the CPU: their number changes results. None for torch's default."""
    data_workers: int = 0
    """Processes that load data ahead, for a ``Dataset``: in training, and in validation. They are started for each
    unit, with the data as it is then, since a training that resumes has no older ones: 0.05 to 0.1 s a unit."""
    keep_data_workers: bool = False
    """Whether these processes stay for all units of a training. They have the data and the trainer as both were in the
    first one, so this is for data that nothing changes later, neither the trainer nor the loading of a sample."""
    clip_grad_norm: float | None = None
    """The largest norm of the whole gradient if the hyper-parameters have no ``clip_grad_norm``; None for no limit."""

    strategy: str = "ddp"
    """The parts that several workers of a trial divide: ``ddp`` (none: each has all), ``zero1`` (the optimizer's
    state) or ``fsdp2`` (weights and gradients, too)."""
    sync_batch_norm: bool = False
    """Whether BatchNorms see the whole batch, where several workers train a trial, and not each its share."""
    ddp_options: Mapping[str, Any] = MappingProxyType({})
    """Arguments of ``DistributedDataParallel``, where several workers train a trial, such as
    ``{"find_unused_parameters": True}``."""
    fsdp_options: Mapping[str, Any] = MappingProxyType({})
    """Arguments of ``fully_shard``, with ``fsdp2``, such as ``{"reshard_after_forward": False}``."""

    _ordered_data = IterableDataset, DataLoader
    _data_words = "tensors or a Dataset with a length"
    net: Any
    """The result of ``model``, on the device."""
    parallel: Any
    """The module that a step calls in place of ``net``: where several workers train a trial, it averages gradients."""
    opt: Any
    """The result of ``optimizer``."""
    _strategy: TorchStrategy = TorchStrategy()
    _loaders: Sequence[KeptLoader] = ()
    scaler: Any
    """The gradient scaler; it does nothing unless ``precision`` is ``float16``."""

    def model(self, hp: Params) -> Any:
        """Return the network, a ``torch.nn.Module``."""
        raise NotImplementedError(f"{type(self).__name__} has no model(): return a torch.nn.Module.")

    def optimizer(self, hp: Params, model: Any) -> Any:
        """Return an optimizer of the model's parameters: a pure function of its arguments, called at each change."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer(): return a torch.optim.Optimizer.")

    def loss(self, model: Any, batch: Any) -> Any:
        """Return the loss of a batch, a 0-dimensional tensor; by default the cross entropy of a batch (x, y)."""
        x, y = batch
        return torch.nn.functional.cross_entropy(model(x), y)

    def sharded_layers(self, model: Any) -> Sequence[Any]:
        """Return the modules that ``fsdp2`` gathers one at a time, inner ones first; by default those in lists."""
        from asyncsearch.trainers.torch.gangs.fsdp2 import layers_to_shard

        return layers_to_shard(model)

    def step(self, batch: Any) -> None:
        """Update the model by a batch; override it to train in another way, and use ``self.scaler`` in it."""
        self.opt.zero_grad()
        with self.autocast():
            loss = self.loss(self.parallel, batch)
        if self._weight != 1.0:
            loss = loss * self._weight
        self.scaler.scale(loss).backward()
        limit = self._largest_norm()
        if limit is not None:
            self.scaler.unscale_(self.opt)
            torch.nn.utils.clip_grad_norm_([one for group in self.opt.param_groups for one in group["params"]], limit)
        self.scaler.step(self.opt)
        self.scaler.update()

    def metrics(self, model: Any, data: Any) -> Mapping[str, Any]:
        """Return the metrics on the validation data; by default the mean loss, and the accuracy where it is defined.

        It runs in evaluation mode and without gradients, and the states of the generators are restored afterwards.
        """
        loss, right, count = 0.0, 0, 0
        has_accuracy = type(self).loss is TorchTrainer.loss and "loss" not in vars(self)
        for batch, counts in self._batches_of_rank(data):
            size, batch_right = length_of(batch), 0
            if has_accuracy:
                x, y = batch
                outputs = model(x)  # once: a layer may change x in place
                batch_loss = float(torch.nn.functional.cross_entropy(outputs, y))
                batch_right = int((outputs.argmax(1) == y).sum())
            else:
                batch_loss = float(self.loss(model, batch))
            if counts:
                loss, right, count = loss + batch_loss * size, right + batch_right, count + size
        if self.trial.world_size > 1:
            from asyncsearch.trainers.torch.gangs.connection import summed

            sums = summed([loss, right, count], self.trial.process_group(), self._device)
            loss, right, count = sums[0], int(sums[1]), int(sums[2])
        return {"loss": loss / count, "accuracy": right / count} if has_accuracy else {"loss": loss / count}

    def batches(self, data: Any, size: int = EVALUATION_BATCH) -> Iterator[Any]:
        """Yield batches of data in its own order, on the device."""
        return self._batches(data, size, 0, self._count(data))

    def _batches_of_rank(self, data: Any) -> Iterator[tuple[Any, bool]]:
        """Yield batches for this rank, and whether they count: where ranks go in step, each gets as many."""
        count, ranks, found = self._count(data), self.trial.world_size, 0
        for batch in self._batches(data, EVALUATION_BATCH, *share_of(self.trial.rank, ranks, count)):
            yield batch, True
            found += 1
        largest = -(-count // ranks)
        rounds = -(-largest // EVALUATION_BATCH) if self._strategy.is_in_step else 0
        for _ in range(found, rounds):
            yield self._moved(self._batch(data, np.arange(min(EVALUATION_BATCH, count)))), False

    def _batches(self, data: Any, size: int, first: int, stop: int) -> Iterator[Any]:
        """Yield batches of the samples from one to another."""
        starts = range(first, stop, size)
        if not self._is_loaded_ahead(data) or not self.has_default("collate") or "collate" in vars(self):
            found = ((start, np.arange(start, min(start + size, stop))) for start in starts)
            yield from (self._moved(batch) for _, batch in self._loaded(data, found))
            return
        # A batch in parts: else one process would fetch the whole of a validation of one batch.
        part = -(-size // self.data_workers)
        places = [
            np.arange(at, min(at + part, start + size, stop))
            for start in starts
            for at in range(start, min(start + size, stop), part)
        ]
        parts = self._loaded(data, ((int(indices[0]), indices) for indices in places))
        for _, group in itertools.groupby(parts, key=lambda one: (one[0] - first) // size):
            yield self._moved(joined([batch for _, batch in group]))

    def collate(self, samples: list[Any]) -> Any:
        """Make a batch of samples of a ``Dataset``; by default as torch's ``DataLoader`` does."""
        return default_collate(samples)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context of mixed precision."""
        if self.precision is None:
            return contextlib.nullcontext()
        autocast: contextlib.AbstractContextManager[Any] = torch.autocast(
            self._device.type, dtype=getattr(torch, self.precision)
        )
        return autocast

    def train(self) -> None:
        if getattr(self, "_pack", None) is not None:
            from asyncsearch.trainers.torch.packs.pack_training import let_out

            let_out(self)
        self._strategy.forget()
        super().train()
        self._strategy.equalize(self.net)

    @classmethod
    def train_pack(cls, trainers: Sequence[Self]) -> PackOutcome:
        """Train one unit of several trainers as one computation where their models allow it; else say why they do not.

        Each ends as after its own ``train``, within rounding.
        """
        from asyncsearch.trainers.torch.packs.pack_training import train_pack

        return train_pack(trainers)

    @classmethod
    def gang_refusal(cls) -> str:
        if refusal := strategy_refusal(cls.__name__, cls.strategy, cls.precision):
            return refusal
        names = getattr(getattr(cls.step, "__code__", None), "co_names", ("parallel",))
        if cls.step is TorchTrainer.step or not {"parallel", "super"}.isdisjoint(names):
            return ""
        return (
            f"{cls.__name__}.step() calls self.net, whose gradients are not averaged over the workers of a trial: "
            "write self.parallel in its place, which is self.net where one worker trains alone."
        )

    @classmethod
    def evaluate_pack(cls, trainers: Sequence[Self]) -> list[Mapping[str, Any] | Exception]:
        """Return the metrics of trainers that ``train_pack`` has just trained, at once where they are the default ones.

        They are those of each one's ``evaluate``, within rounding.
        """
        from asyncsearch.trainers.torch.packs.pack_training import evaluate_pack

        return evaluate_pack(trainers)

    def save(self, path: Path) -> None:
        self._strategy.write(self._state(), path)

    def _state(self) -> dict[str, Any]:
        model = self._strategy.model_state(self.net)
        return {
            "model": model,
            # state_dict() omits buffers registered with persistent=False, which may change in training.
            "buffers": {name: buffer for name, buffer in self.net.named_buffers() if name not in model},
            "optimizer": self._strategy.optimizer_state(self.opt),
            "optimizer_kind": _kind(self.opt),
            "scaler": self.scaler.state_dict(),
            "counters": json.dumps(self._counters()),
        }

    def _copied_state(self, may_take: Callable[[int], bool]) -> SaveFunction | None:
        state = copied(self._state(), may_take)
        return None if state is None else lambda path: TorchStrategy().write(state, path)

    def load(self, path: Path) -> None:
        state = self._strategy.read(path, self._device)
        self._restore_counters(json.loads(state["counters"]))
        self._strategy.load_model(self.net, state["model"])
        buffers = dict(self.net.named_buffers())
        for name, value in state["buffers"].items():
            buffers[name].copy_(value)
        self.scaler.load_state_dict(state["scaler"])
        self._require_same_optimizer(state["optimizer_kind"], _kind(self.opt))
        self._strategy.load_optimizer(self.opt, state["optimizer"])

    # Implementation of the base class

    def _build(self, hp: dict[str, Any]) -> None:
        self._prepare()
        net = self._ablated(self.model(hp)).to(self._device)
        if self.trial.world_size > 1:
            net = self._join_ranks(net, self.trial.gang)
        self.net = self._strategy.divide(net)
        self.opt = self._strategy.attach(self.optimizer(hp, self.net))
        self.scaler = torch.amp.GradScaler(self._device.type, enabled=self.precision == "float16")
        self.parallel = self._strategy.parallel(self.net)

    def _join_ranks(self, net: Any, gang: TrialGang | None) -> Any:
        """Meet the other ranks, and return the model as it is trained with them."""
        assert gang is not None, "a trial of several workers has a gang"
        if refusal := strategy_refusal(type(self).__name__, self.strategy, self.precision):
            raise UsageError(refusal)
        from asyncsearch.trainers.torch.gangs.connection import connected

        connection = connected(gang)
        gang.agree_by(connection.pass_on)
        self._strategy = strategy_for(self)
        return self._norms().synchronized(net, connection.group, self._device) if self._syncs else net

    @property
    def _syncs(self) -> bool:
        return self.sync_batch_norm and self.trial.world_size > 1

    def _norms(self) -> Any:
        from asyncsearch.trainers.torch.gangs import batch_norms

        return batch_norms

    def _gradient_bytes(self) -> int:
        return sum(one.numel() * one.element_size() for one in self.net.parameters() if one.requires_grad)

    def _call(self, inputs: tuple[Any, ...]) -> None:
        self.net(*map(self._moved, inputs))

    def _prepare(self) -> None:
        if self.precision not in (None, "float16", "bfloat16"):
            raise UsageError(f"precision={self.precision!r} is unknown: write None, 'float16' or 'bfloat16'.")
        self._device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if self.threads is not None and torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        if self.deterministic:
            # Read when CUDA's linear algebra library starts; without it, torch refuses to be deterministic.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.backends.cudnn.benchmark = False
            # Same as use_deterministic_algorithms, which takes two seconds to import torch's compiler.
            torch.set_deterministic_debug_mode("error")

    def _put(self, hp: dict[str, Any]) -> None:
        fresh = self.optimizer(hp, self.net)
        if _kind(fresh) != _kind(self.opt):
            self.opt = self._strategy.attach(fresh)
            return
        for group, new in zip(self.opt.param_groups, fresh.param_groups, strict=True):
            group.update({name: value for name, value in new.items() if name != "params"})

    def _largest_norm(self) -> float | None:
        return checked_norm(self._applied.get("clip_grad_norm", self.clip_grad_norm))

    def _train_batch(self, batch: Any) -> None:
        if self._syncs:
            self._norms().tell_share(self.net, has_share=self._weight > 0)
        self.step(self._moved(batch))
        self._strategy.require_gradients(self.parallel)

    def _metrics(self) -> Mapping[str, Any]:
        return self.metrics(self.net, self._validation_data)

    def _fetched(self, found: Iterator[tuple[int, Indices]], number: int) -> Iterator[tuple[int, Any]]:
        return self._loaded(self._train_data, found)

    def _is_loaded_ahead(self, data: Any) -> bool:
        return self.data_workers > 0 and isinstance(data, Dataset)

    def _loaded(self, data: Any, found: Iterator[tuple[int, Indices]]) -> Iterator[tuple[int, Any]]:
        """Turn indices into batches, ahead and in other processes if there are to be any."""
        if not self._is_loaded_ahead(data):
            for at, indices in found:
                yield at, self._batch(data, indices)
            return
        places = list(found)
        yield from zip((at for at, _ in places), self._load([one.tolist() for _, one in places], data), strict=True)

    def _load(self, places: list[list[int]], data: Any) -> Iterator[Any]:
        # New processes, unless asked otherwise: kept ones have the data as earlier units have left them, such as the
        # state of a generator of its own, or miss what was changed in them here; a training that resumes has neither.
        own = (self._train_data, self._validation_data)
        if not (self.keep_data_workers and any(data is one for one in own)):
            return load_by_new(data, places, self.data_workers, self.collate)
        self._loaders = [one for one in self._loaders if any(one.data is data for data in own)]
        found = next((one for one in self._loaders if one.data is data), None)
        if found is None:
            found = KeptLoader(data, self.data_workers, self.collate)
            self._loaders = [*self._loaders, found]
        return found.load(places)

    def _batch(self, data: Any, indices: Indices) -> Any:
        return batch_of(data, indices, self.collate)

    def _moved(self, batch: Any) -> Any:
        return moved(batch, self._device)

    def _seed_framework(self, seed: int) -> None:
        torch.manual_seed(seed)  # on all devices

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[None]:
        modes = [(module, module.training) for module in self.net.modules()]
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
        with super()._untouched(), torch.random.fork_rng(devices=devices), torch.no_grad():
            try:
                self.net.eval()
                yield
            finally:
                for module, is_training in modes:
                    module.training = is_training


def _kind(optimizer: Any) -> str:
    """Return the properties that two optimizers must share to exchange states: class and number of parameters."""
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    return f"{type(optimizer).__qualname__} of {sizes} parameters"
