"""Why a model, or its optimizer, cannot be trained as one computation with others, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from asyncsearch.packing.member import Member, cross_entropy, precision_refusals
from asyncsearch.packing.stack.activations import DROPOUTS
from asyncsearch.packing.stack.update_rules import RULES

nn: Any = torch.nn

_MODULE_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_LAYERS = (
    (nn.RNNBase, "vmap has no rule for recurrent layers: train them without packing"),
    (nn.EmbeddingBag, "vmap computes it one member after the other: use nn.Embedding and a sum or a mean"),
    ((nn.AlphaDropout, nn.FeatureAlphaDropout), "its noise is not drawn for each member: use nn.Dropout"),
    (nn.RReLU, "it draws random numbers: use nn.LeakyReLU"),
    (torch.jit.ScriptModule, "it cannot be called with other weights: do not compile it by torch.jit"),
)


def refusal(member: Member) -> str | None:
    """Return why a member cannot be trained with any others as one computation; None if nothing is seen."""
    found = (*_model_refusals(member.model), *_optimizer_refusals(member), *precision_refusals(member))
    return next(iter(found), None) or member.by_itself or None


def conflict(members: Sequence[Member]) -> str | None:
    """Return why members cannot be in one pack, alike or not: they would change each other's results."""
    return _shared_objects(members) or _without_generator(members)


def padding_refusal(member: Member, sizes: Sequence[int]) -> str | None:
    """Return why members like this one cannot have batches of these different sizes; None if they can."""
    words = padding_trap(member)
    return words and f"The batches of the members have {min(sizes)} to {max(sizes)} samples, and {words}."


def padding_trap(member: Member) -> str | None:
    """Return the layer or loss that would let the padding of a batch count, and the remedy; None if there is none."""
    if member.loss is not cross_entropy and member.sample_losses is None:
        return (
            "a mean loss cannot leave out padding: give sample_losses(model, batch), which returns one loss for each "
            "sample"
        )
    for name, module in member.model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training:
            kind = type(module).__name__
            return f"layer {name!r} ({kind}) mixes samples, padding too: pack members of one batch size"
    return None


def _shared_objects(members: Sequence[Member]) -> str | None:
    for name in ("model", "optimizer", "generator", "scaler"):
        objects = [getattr(member, name) for member in members if getattr(member, name) is not None]
        if len({*map(id, objects)}) < len(objects):
            return f"two members have the same {name}: give each its own"
    devices = {p.device for member in members for p in member.model.parameters()}
    if len(devices) > 1:
        return f"their models are on different devices: load all on one of {', '.join(sorted(map(str, devices)))}"
    parameters = [id(parameter) for member in members for parameter in member.model.parameters()]
    return "two models share a parameter: give each its own" if len({*parameters}) < len(parameters) else None


def _without_generator(members: Sequence[Member]) -> str | None:
    for number, member in enumerate(members if len(members) > 1 else []):
        if member.generator is None and _draws(member.model):
            return (
                f"member {number} has dropout and no generator of its own, so members would change each other's draws: "
                "write Member(..., generator=torch.Generator().manual_seed(seed))"
            )
    return None


def _draws(model: Any) -> bool:
    """Return whether a model may draw; p may change between steps, so it does not count."""
    return any(isinstance(module, DROPOUTS) and module.training for module in model.modules())


def _model_refusals(model: Any) -> Iterator[str]:
    if not isinstance(model, nn.Module):
        yield f"the model is a {type(model).__name__}: give a torch.nn.Module"
        return
    for name, parameter in model.named_parameters():
        yield from _parameter_refusals(name, parameter)
    for name, module in model.named_modules():
        at = f"layer {name!r} ({type(module).__name__})" if name else f"the model ({type(module).__name__})"
        for kinds, words in _LAYERS:
            if isinstance(module, kinds):
                yield f"{at} cannot be computed for all members at once: {words}"
        if type(module).__name__ == "OptimizedModule":  # by name, since importing torch's compiler takes two seconds
            yield f"{at} was compiled by torch.compile: leave that out"
        if isinstance(module, nn.MultiheadAttention) and module.training and module.dropout > 0:
            yield f"{at} draws its dropout inside: set its dropout to 0, and put nn.Dropout layers beside it"
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is None and module.training:
            yield f"{at} averages over all batches (momentum=None): give it a momentum"
        if isinstance(module, nn.Embedding) and (module.sparse or module.max_norm is not None):
            yield f"{at} has sparse=True or max_norm, which change its weights in their own ways: leave them out"
        if any(getattr(module, hooks, None) for hooks in _MODULE_HOOKS):
            yield f"{at} has a hook, which would be called once for all members: remove it"


def _parameter_refusals(name: str, parameter: Any) -> Iterator[str]:
    if isinstance(parameter, nn.parameter.UninitializedTensorMixin):
        yield f"parameter {name!r} has no shape yet (a lazy module): run a batch through the model first"
    elif parameter.is_complex():
        yield f"parameter {name!r} is complex: use real parameters"
    elif parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
        yield f"parameter {name!r} has a hook, which would not be called: remove it"


def _optimizer_refusals(member: Member) -> Iterator[str]:
    optimizer, kind = member.optimizer, type(member.optimizer)
    if kind not in RULES:
        known = ", ".join(known.__name__ for known in RULES)
        yield f"the optimizer is {kind.__module__}.{kind.__qualname__}: use torch's {known}, or train it unpacked"
        return
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        yield f"{kind.__name__} has a step hook, which would not be called: remove it"
    for group in optimizer.param_groups:
        for name, value in group.items():
            parts = value if isinstance(value, tuple) else (value,)
            if name != "params" and any(isinstance(part, torch.Tensor) for part in parts):
                yield f"{name} of {kind.__name__} is a tensor, whose changes are not seen: write a float"
            if name in ("capturable", "differentiable") and value:
                yield f"{kind.__name__} has {name}=True, which the update of many members does not do: leave it out"
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    known_ids = {id(parameter) for parameter in member.model.parameters()}
    if any(id(parameter) not in known_ids for parameter in parameters):
        yield f"{kind.__name__} updates a parameter that is not in the model: make it a parameter of the model"
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        yield f"{kind.__name__} has no parameter that requires a gradient: train at least one"
    kinds = {(parameter.dtype, parameter.device) for parameter in trained}
    if len(kinds) > 1:
        yield f"the trained parameters differ in dtype or device ({len(kinds)} kinds): make them equal"
