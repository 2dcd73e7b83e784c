"""Networks of Keras without some of their layers: each is replaced by the identity, or by what fits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import keras

from asyncsearch.ablation import chosen
from asyncsearch.errors import UsageError


@keras.saving.register_keras_serializable("asyncsearch")
class FittedLayer(keras.layers.Layer):  # type: ignore[misc]
    """Gives its input another shape without variables: cut off or filled up with zeros, dimension by dimension.

    Where only the size of a picture differs, as after a convolution with a stride, it is the mean of each part.
    Integers, as of tokens before an embedding, become zeros.
    """

    def __init__(self, shape: Sequence[int], channels: int = -1, **options: Any) -> None:
        """``shape`` is that of the output without its first dimension, ``channels`` the place of channels in it."""
        super().__init__(**options)
        self.shape = tuple(shape)
        self.channels = channels

    def call(self, x: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Return the input in the shape; a model in a model is called with ``training`` and ``mask``, too."""
        del training, mask
        ops = keras.ops
        if not keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype)):
            flat = ops.cast(ops.reshape(x, (ops.shape(x)[0], -1))[:, :1], self.compute_dtype)
            return ops.zeros_like(ops.broadcast_to(ops.reshape(flat, (-1, *[1] * len(self.shape))), self._whole(x)))
        if len(x.shape) != len(self.shape) + 1:
            flat = _resized(ops.reshape(x, (ops.shape(x)[0], math.prod(x.shape[1:]))), 1, math.prod(self.shape))
            return ops.reshape(flat, self._whole(x))
        if len(x.shape) >= 3:
            x = self._pooled(x)
        for number, size in enumerate(self.shape, start=1):
            x = _resized(x, number, size)
        return x

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the shape of the output, the samples first."""
        return (input_shape[0], *self.shape)

    def get_config(self) -> dict[str, Any]:
        """Return the function that makes the same layer again."""
        return {**super().get_config(), "shape": list(self.shape), "channels": self.channels}

    def _whole(self, x: Any) -> tuple[Any, ...]:
        return (keras.ops.shape(x)[0], *self.shape)

    def _pooled(self, x: Any) -> Any:
        places = [number for number in range(1, len(x.shape)) if number != self.channels % len(x.shape)]
        if any(x.shape[number] % self.shape[number - 1] for number in places):
            return x
        for number in reversed(places):
            size, new = x.shape[number], self.shape[number - 1]
            if size != new:
                shape = (keras.ops.shape(x)[0], *x.shape[1:number], new, size // new, *x.shape[number + 1 :])
                x = keras.ops.mean(keras.ops.reshape(x, shape), axis=number + 1)
        return x


def without(net: keras.Model, patterns: Sequence[str], inputs: Sequence[Any] = ()) -> keras.Model:
    """Return a copy without the layers that the patterns name; the others have the weights that they had.

    Raises:
        UsageError: there is no such layer, nothing fits in its place, or the model cannot be copied layer by layer.
    """
    kind = type(net).__name__
    if type(net).__module__.partition(".")[0] != "keras":
        raise UsageError(
            f"{kind} is a model of your own class, whose layers only its code knows: return a Sequential or a "
            "functional model, or write Ablation(custom=[...]) and ask trial.ablation.keeps(name) there."
        )
    if not net.built:
        if not inputs:
            raise UsageError(
                f"The shapes of {kind} are known once it is called with samples: begin it with keras.Input(...), or "
                "write trial.ablation.model(net, x)."
            )
        net(*inputs)
    layers = {layer.name: layer for layer in net.layers if not isinstance(layer, keras.layers.InputLayer)}
    left_out = set(chosen(list(layers), patterns, kind))

    def made(layer: Any) -> Any:
        if layer.name not in left_out:
            return type(layer).from_config(layer.get_config())
        return _replacement(layer)

    # New layers draw seeds: without it a variant would have its samples in another order than the base.
    state = random.getstate()
    try:
        copy = keras.models.clone_model(net, clone_function=made)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"{kind} without {', '.join(sorted(left_out))} cannot be built ({type(error).__name__}: {error}): leave "
            "out another layer."
        ) from error
    finally:
        random.setstate(state)
    for layer in copy.layers:
        if layer.name in layers and layer.name not in left_out:
            for mine, its in zip(layer.variables, layers[layer.name].variables, strict=True):
                mine.assign(its)  # not set_weights(), which leaves out the seeds of Dropout
    return copy


def _replacement(layer: Any) -> Any:
    before, after = _shape(layer, "input"), _shape(layer, "output")
    is_float = keras.backend.is_float_dtype(keras.backend.standardize_dtype(layer.input.dtype))
    if before == after and is_float and not isinstance(layer, keras.Model):
        return keras.layers.Identity(name=layer.name)
    if None in after[1:] or None in before[1:]:
        raise UsageError(
            f"The layer {layer.name!r} has no fixed shape, {before} before and {after} after, so nothing fits in its "
            "place: give keras.Input(...) a whole shape, or leave out another layer."
        )
    channels = 1 if getattr(layer, "data_format", None) == "channels_first" else -1
    return FittedLayer([size or 0 for size in after[1:]], channels, name=layer.name)


def _shape(layer: Any, side: str) -> tuple[int | None, ...]:
    tensor = getattr(layer, side)
    if isinstance(tensor, list | tuple | dict):
        raise UsageError(
            f"The layer {layer.name!r} ({type(layer).__name__}) does not turn one tensor into one tensor, so nothing "
            "fits in its place: write Ablation(custom=[...]) and ask trial.ablation.keeps(name) in model()."
        )
    return tuple(tensor.shape)


def _resized(x: Any, dimension: int, size: int) -> Any:
    have = x.shape[dimension]
    if have > size:
        return keras.ops.take(x, keras.ops.arange(size), axis=dimension)
    if have == size:
        return x
    return keras.ops.pad(x, [(0, size - have if number == dimension else 0) for number in range(len(x.shape))])
