"""The parts that a trial of an ablation study lacks: the words of its parameter ``ablated``, and the questions of code.

Rule: pure, and no import of a framework; ``model`` hands the network to the module that knows its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from asyncsearch.ablation import fits
from asyncsearch.errors import UsageError

PARAMETER = "ablated"
"""Name of the parameter that holds the components that a trial lacks."""
NOTHING = "nothing"
"""Its value in the base, with which the others are compared."""
KINDS = ("feature", "filled", "layer", "custom", "data", "model")
"""Kinds of components: columns that are dropped, columns whose values become one constant, layers, what the code asks
for by its name, and what a function of the user's own makes of the data or of the network."""
_WITH_PATTERNS = ("feature", "filled", "layer")

_ESCAPES = (("%", "%25"), ("+", "%2B"), (":", "%3A"), ("=", "%3D"))

OwnFunction = Callable[[Any], Any]
"""The user's own ``function(data)`` or ``function(net)`` -> the same without what is left out."""
_known: dict[str, OwnFunction] = {}
"""By the digest of its code: the functions of the studies that this process has described or, in a worker, received."""


class Component(NamedTuple):
    """One thing that can be left out."""

    kind: str
    name: str
    """Of a column or a layer, or a pattern of names; the user's own; the digest of a function."""
    label: str = ""
    """The user's name for it. Empty if it is called by its name, or by the label of the whole."""

    def __str__(self) -> str:
        if self.label or self.kind == "custom":
            return self.label or self.name
        return {"filled": "feature"}.get(self.kind, self.kind) + f" {self.name}"

    @property
    def text(self) -> str:
        """The component in the value of the parameter."""
        return ":".join([self.kind, *map(_escaped, (self.name, self.label) if self.label else (self.name,))])

    def has(self, name: str) -> bool:
        """Return whether a name stands for the component, or for one of those that its pattern fits."""
        return name in (self.name, self.label) or (self.kind in _WITH_PATTERNS and fits(name, self.name))


class Ablated(NamedTuple):
    """All parts that a trial lacks."""

    components: tuple[Component, ...]
    label: str = ""
    """Name of the group. Empty if it has none."""

    def __str__(self) -> str:
        return self.label or " + ".join(map(str, self.components)) or NOTHING

    @property
    def value(self) -> str:
        """The value of the parameter."""
        text = "+".join(one.text for one in self.components)
        return f"{_escaped(self.label)}={text}" if self.label else text or NOTHING

    @classmethod
    def of(cls, value: Any) -> Ablated:
        """Return the components that a value of the parameter stands for.

        Raises:
            UsageError: it is no such value.
        """
        if value in (None, NOTHING):
            return cls(())
        try:
            label, _, rest = value.rpartition("=")
            pairs = [text.split(":") for text in rest.split("+")]
            components = tuple(Component(kind, *map(_unescaped, names)) for kind, *names in pairs)
        except (AttributeError, TypeError, ValueError):
            label, components = "", ()
        if not components or any(one.kind not in KINDS for one in components):
            raise UsageError(
                f"{PARAMETER}={value!r} names no component: the parameter {PARAMETER!r} belongs to Ablation(...), "
                f"which writes e.g. 'feature:age'. Call a parameter of your own by another name."
            )
        return cls(components, _unescaped(label))


class TrialAblation:
    """The answers to the user's code in a trial: data and model without what is left out, the same in the base."""

    def __init__(self, value: Any) -> None:
        self.ablated = Ablated.of(value)
        self._constants: dict[str, Any] = {}

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.ablated.components)

    def __str__(self) -> str:
        return str(self.ablated)

    def keeps(self, name: str) -> bool:
        """Return whether a component is there: False where it is left out.

        Args:
            name: of a component or a group in ``Ablation(...)``, or of a column or a layer that a pattern there fits.
        """
        return name != self.ablated.label and not any(one.has(name) for one in self.ablated.components)

    def data(self, frame: Any) -> Any:
        """Return data without the features that are left out; data that lacks nothing is returned as it is.

        Args:
            frame: a pandas or Spark DataFrame, a mapping of names to arrays, an array with samples as rows and columns
                by number, or a tuple whose first element is one of these, as ``(x, y)``. A feature that is filled
                keeps its place, and all its values are the mean, or the most frequent one, of the first data given.
                A function in ``Ablation(features={...})`` gets what columns have been left out of, of any kind.

        Raises:
            UsageError: the data has no such feature, or is of another kind.
        """
        dropped, filled = self._names("feature"), self._names("filled")
        if dropped or filled:
            from asyncsearch.ablation import columns

            frame = columns.without(frame, dropped, filled, self._constants)
        return self._changed("data", frame)

    def model(self, net: Any, *inputs: Any) -> Any:
        """Return a network without the layers that are left out; one that lacks nothing is returned as it is.

        A layer is replaced by the identity, or, if its output has another shape than its input, by what fits without
        parameters: see docs/ablation.md.

        Args:
            net: a ``torch.nn.Module``, which is changed, or a sequential or functional ``keras.Model``, which is copied
                with its weights. A function in ``Ablation(layers={...})`` gets what layers have been left out of, of
                any kind.
            inputs: what the network is called with, for a few samples: needed where the shapes cannot be told without.

        Raises:
            UsageError: there is no such layer, or nothing fits in its place.
        """
        layers = self._names("layer")
        return self._changed("model", self._without(net, layers, inputs) if layers else net)

    def _without(self, net: Any, layers: list[str], inputs: tuple[Any, ...]) -> Any:
        bases = {base.__module__.partition(".")[0] for base in type(net).__mro__}
        if "torch" in bases:
            from asyncsearch.ablation import torch_layers

            return torch_layers.without(net, layers, inputs)
        if "keras" not in bases:
            raise UsageError(
                f"Layers of a {type(net).__name__} cannot be left out: give model() a torch.nn.Module or keras.Model, "
                "or write Ablation(custom=[...]) and ask trial.ablation.keeps(name) where you build it."
            )
        from asyncsearch.ablation import keras_layers

        return keras_layers.without(net, layers, inputs)

    def _changed(self, kind: str, given: Any) -> Any:
        """Return the variant that the user's own functions make of data or of a network."""
        for one in self.ablated.components:
            if one.kind == kind:
                words = one.label or self.ablated.label
                given = called(one.name, words, given)
        return given

    def _names(self, kind: str) -> list[str]:
        return [one.name for one in self.ablated.components if one.kind == kind]


def _escaped(text: str) -> str:
    return _replaced(text, _ESCAPES)


def _unescaped(text: str) -> str:
    return _replaced(text, [(new, old) for old, new in reversed(_ESCAPES)])


def _replaced(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def register(functions: Mapping[str, OwnFunction]) -> None:
    """Make functions known: digest -> function."""
    _known.update(functions)


def called(digest: str, name: str, given: Any) -> Any:
    """Return the variant that a function makes of data or of a network.

    Raises:
        UsageError: it is not known in this process, or returns nothing.
    """
    function = _known.get(digest)
    if function is None:
        raise UsageError(
            f"The function that leaves {name!r} out is not known in this process: build the same Ablation(...) before "
            "the trial, from the same code."
        )
    found = function(given)
    if found is None:
        raise UsageError(
            f"The function that leaves {name!r} out returned None for a {type(given).__name__}: let it return the "
            "variant, also where it changes in place what it is given."
        )
    return found


class SentWith:
    """A trainable as sent to the workers, with functions. Unpickling returns the trainable and registers them."""

    def __init__(self, trainable: Any, functions: Mapping[str, OwnFunction]) -> None:
        self.trainable, self.functions = trainable, dict(functions)
        self.__name__ = self.__qualname__ = str(getattr(trainable, "__qualname__", type(trainable).__qualname__))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.trainable, self.functions)


def _restored(trainable: Any, functions: Mapping[str, OwnFunction]) -> Any:
    register(functions)
    return trainable
