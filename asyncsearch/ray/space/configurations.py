"""The configurations of a program of Ray Tune: its ``param_space`` with one value in the place of each domain.

A trial of the study has *params*: a flat mapping of the names of the varying places, "model/lr", to plain values, which
tables and the journal show. ``ParamSpace.config`` makes the program's own configuration of them, with its own objects,
on the driver and on workers alike.
"""

from __future__ import annotations

import contextlib
import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator
from asyncsearch.ray.space.spaces import ChoiceDomain, DrawnByFunction, TuneDomain
from asyncsearch.trial import Params

ConfigPlace = tuple[Any, ...]
"""The keys that lead to a value."""
_PURPOSE = "ray.configurations"
_LONGEST_LABEL = 40


class UnresolvedError(Exception):
    """A function of ``sample_from`` reads a value that is not drawn yet."""


@dataclass(frozen=True)
class ParamSpace:
    """A ``param_space`` with the number of times that it is drawn."""

    space: Any
    num_samples: int | None
    """None: without end."""
    presets: tuple[Mapping[str, Any], ...] = ()
    """``points_to_evaluate``: values that come first, by their names in the space."""
    is_grid_constant: bool = False
    """Whether all points of a grid have the same values of the domains beside it."""
    _last: list[Any] = field(default_factory=list, compare=False, repr=False)
    """What was drawn last, and for what: the first configuration is proposed twice, once to be checked before the
    search begins, and a function of ``sample_from`` that counts must not be called twice for it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return ParamSpace, (self.space, self.num_samples, self.presets, self.is_grid_constant)

    def length(self) -> int | None:
        """Return the number of configurations. None if it has no end."""
        if self.num_samples is None:
            return None
        first = sum(self._grid_size(preset) for preset in self._used_presets)
        return first + max(0, self.num_samples - len(self._used_presets)) * self._grid_size({})

    def is_beyond(self, number: int) -> bool:
        """Return whether there is no configuration of this number."""
        length = self.length()
        return length is not None and number >= length

    @property
    def _used_presets(self) -> tuple[Mapping[str, Any], ...]:
        return self.presets if self.num_samples is None else self.presets[: self.num_samples]

    @property
    def grid(self) -> list[tuple[ConfigPlace, list[Any]]]:
        """The places of ``grid_search`` and their values, in the order of their names."""
        found = [(place, leaf["grid_search"]) for place, leaf in leaves(self.space) if is_grid(leaf)]
        return sorted(found, key=lambda pair: [str(key) for key in pair[0]])

    def _grid_size(self, preset: Mapping[str, Any]) -> int:
        return math.prod(len(values) for place, values in self.grid if name_of(place) not in preset)

    def draw(self, number: int, seed: int, given: Mapping[str, Any] = MappingProxyType({})) -> Params | None:
        """Return the params of a configuration, from 0. None beyond the last one.

        ``given``: values by name that are not drawn.

        Raises:
            SpaceError: a function of ``sample_from`` failed, or returned what the journal cannot hold.
        """
        if not self._last or self._last[:2] != [number, seed] or not _are_same(self._last[2], given):
            self._last[:] = [number, seed, dict(given), self._draw(number, seed, given)]
        params: Params | None = copy.deepcopy(self._last[3])
        return params

    def _draw(self, number: int, seed: int, given: Mapping[str, Any]) -> Params | None:
        if self.is_beyond(number):
            return None
        sample = 0
        for preset in self._used_presets:
            if number < (size := self._grid_size(preset)):
                return self._drawn({**given, **preset}, number, generator(seed, _PURPOSE, sample))
            number -= size
            sample += 1
        at = number % self._grid_size({})
        sample += number // self._grid_size({}) if self.is_grid_constant else number
        return self._drawn(given, at, generator(seed, _PURPOSE, sample))

    def _drawn(self, preset: Mapping[str, Any], at: int, source: np.random.Generator) -> Params:
        """Return the params with the values of a preset, and those of a grid's point."""
        fixed = dict(preset)
        for place, values in self.grid:  # the first one changes fastest
            if name_of(place) not in preset:
                at, index = divmod(at, len(values))
                fixed[name_of(place)] = values[index]
        params: Params = {}

        def value_of(place: ConfigPlace, leaf: Any) -> Any:
            name = name_of(place)
            if name in fixed:
                value = fixed[name]
            elif isinstance(leaf, DrawnByFunction):
                return leaf
            else:
                value = leaf.draw(source) if isinstance(leaf, TuneDomain) else leaf["grid_search"][0]
            params[name] = encoded(leaf, value, name)
            return value

        _call_functions(resolved(self.space, value_of), params, source)
        return params

    def config(self, params: Mapping[str, Any]) -> Any:
        """Return the program's own configuration: a copy of its own, whose objects are the program's."""
        return resolved(self.space, lambda place, leaf: decoded(leaf, params[name_of(place)]))


def name_of(place: ConfigPlace) -> str:
    """Return the name of a place, as Ray flattens it: "model/lr"."""
    return "/".join(map(str, place))


def is_grid(value: Any) -> bool:
    """Return whether a value is what ``tune.grid_search`` returns."""
    return type(value) is dict and len(value) == 1 and "grid_search" in value and isinstance(value["grid_search"], list)


def is_leaf(value: Any) -> bool:
    """Return whether a value is to be replaced in each configuration."""
    return isinstance(value, TuneDomain) or is_grid(value)


def leaves(value: Any, place: ConfigPlace = ()) -> Iterator[tuple[ConfigPlace, Any]]:
    """Yield the places of a space that vary."""
    if is_leaf(value):
        yield place, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, (*place, key))
    elif type(value) in (list, tuple):
        for index, one in enumerate(value):
            yield from leaves(one, (*place, index))


def resolved(value: Any, value_of: Callable[[ConfigPlace, Any], Any], place: ConfigPlace = ()) -> Any:
    """Return a copy of a space with the value of each leaf; a value that has domains in it is resolved in turn."""
    if is_leaf(value):
        found = value_of(place, value)
        return found if isinstance(found, DrawnByFunction) else resolved(found, value_of, place)
    if isinstance(value, dict):
        made = {key: resolved(one, value_of, (*place, key)) for key, one in value.items()}
        return made if type(value) is dict else _like(value, made)
    if type(value) in (list, tuple):
        return type(value)(resolved(one, value_of, (*place, index)) for index, one in enumerate(value))
    return value


def _like(given: dict[Any, Any], made: dict[Any, Any]) -> Any:
    """Return a mapping of a class of its own with these values."""
    copied = given.copy()
    copied.update(made)
    return copied


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same object, or equal plain values."""
    return one is other or (is_plain(one) and type(one) is type(other) and bool(one == other))


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)


class ConfigView(dict[Any, Any]):
    """The configuration as ``sample_from`` reads it: ``spec.config.lr`` or ``config["lr"]``."""

    @property
    def config(self) -> ConfigView:
        """Itself: Ray's functions read their configuration from a specification."""
        return self

    def __getitem__(self, key: Any) -> Any:
        if key == "config" and not super().__contains__("config"):
            return self
        value = super().__getitem__(key)
        if isinstance(value, DrawnByFunction):
            raise UnresolvedError(key)
        return ConfigView(value) if type(value) is dict else value

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if super().__contains__(key) else default  # by the rule of __getitem__

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The configuration has no {name!r}; it has {', '.join(map(str, self))}.") from None


def _call_functions(config: Any, params: Params, source: np.random.Generator) -> None:
    """Add to params what the functions of ``sample_from`` return, each once what it reads is there."""
    waiting = [(place, leaf) for place, leaf in leaves(config) if isinstance(leaf, DrawnByFunction)]
    while waiting:
        left = []
        for place, leaf in waiting:
            try:
                with seeded(source):
                    value = leaf.function(ConfigView(config))
            except UnresolvedError:
                left.append((place, leaf))
                continue
            except Exception as error:
                words = f"{leaf} of {name_of(place)!r} failed: {type(error).__name__}: {error}"
                raise SpaceError(words) from error
            params[name_of(place)] = _as_json(value, name_of(place))
            config = _with_value(config, place, value)
        if len(left) == len(waiting):
            names = ", ".join(name_of(place) for place, _ in left)
            raise SpaceError(f"The functions of sample_from of {names} read each other's values: let one be drawn.")
        waiting = left


@contextlib.contextmanager
def seeded(source: np.random.Generator) -> Iterator[None]:
    """Let a function of the program draw from the global generators, which are afterwards as they were."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    seed = int(source.integers(2**32))
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)


def _with_value(config: Any, place: ConfigPlace, value: Any) -> Any:
    return resolved(config, lambda at, leaf: value if at == place else leaf)


def is_plain(value: Any) -> bool:
    """Return whether JSON gives back the same value."""
    return type(value) in (bool, int, str, type(None)) or (type(value) is float and math.isfinite(value))


def _options(leaf: Any) -> list[Any] | None:
    if isinstance(leaf, ChoiceDomain):
        return leaf.categories
    return leaf["grid_search"] if is_grid(leaf) else None


def _label(options: list[Any], index: int) -> Any:
    """Return a label for one of several values: itself, or its number and how it begins."""
    value = options[index]
    if is_plain(value):
        return value
    text = getattr(value, "__name__", None) or repr(value)
    return f"#{index + 1} {text if len(text) <= _LONGEST_LABEL else type(value).__name__}"


def encoded(leaf: Any, value: Any, name: str) -> Any:
    """Return a value as params have it."""
    options = _options(leaf)
    if options is not None:
        index = next((at for at, one in enumerate(options) if is_same(one, value)), None)
        if index is not None:
            return _label(options, index)
    return _as_json(value, name)


def decoded(leaf: Any, value: Any) -> Any:
    """Return the value of what params have."""
    options = _options(leaf)
    for index in range(len(options or ())):
        if is_same(_label(options or [], index), value):
            return (options or [])[index]
    return _from_json(value)


def _as_json(value: Any, name: str) -> Any:
    if is_plain(value):
        return value
    if isinstance(value, np.generic):
        return _as_json(value.item(), name)
    if type(value) is list:
        return [_as_json(one, name) for one in value]
    if type(value) is tuple:
        return {"tuple": [_as_json(one, name) for one in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: _as_json(one, name) for key, one in value.items()}}
    raise SpaceError(
        f"{name!r} was given {value!r}, which no journal can hold: let it be a number, a text, None, or a "
        "list, tuple or "
        "dictionary of these, and make the object of it in the trainable; or name the objects in tune.choice([...])."
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        if kind == "tuple":
            return tuple(_from_json(one) for one in content)
        return {key: _from_json(one) for key, one in content.items()}
    return value


def with_changes(config: Any, changed: Mapping[str, Any]) -> Any:
    """Return a configuration with values by their flat names."""
    for name, value in changed.items():
        level, (*groups, last) = config, name.split("/")
        for group in groups:
            level = level.setdefault(group, {})
        level[last] = value
    return config
