"""Parameters that are templates, sequences that contain domains: from one value to flat parameters and back.

    Leaf      one domain, one parameter
    Filled    a sequence with domains in it: a parameter for each of them, ``lr.gamma``
    Chosen    a choice with such sequences among its values: a parameter for the choice itself, ``lr``, and those of
              each sequence, ``lr.cosine.total``, which exist only where it is chosen

Rule 1: pure. Rule 2: a node *assembles* a value from flat parameters, takes it *apart*, and returns the known *part*.
"""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import Sequence as ValueSequence
from asyncsearch.sequences import from_json, is_sequence, templates
from asyncsearch.space.conditions import Condition
from asyncsearch.space.domains import Choice, Domain
from asyncsearch.space.parameter_values import show


class ParameterNode(abc.ABC):
    """The value at one place of a space, and its flat parameters."""

    path: str

    @abc.abstractmethod
    def parameters(self) -> Iterator[tuple[str, Domain]]:
        """Yield (dotted name, domain) of its flat parameters, parents before children."""

    @abc.abstractmethod
    def is_whole(self, flat: Mapping[str, Any]) -> bool:
        """Return whether all parameters that it needs are known."""

    @abc.abstractmethod
    def assemble(self, flat: Mapping[str, Any]) -> Any:
        """Return its value.

        Raises:
            SpaceError: the parameters make no sequence together.
        """

    @abc.abstractmethod
    def apart(self, value: Any) -> dict[str, Any]:
        """Return dotted name -> value of the parameters that make a value, or a part of one.

        Raises:
            SpaceError: no parameters make it.
        """

    @abc.abstractmethod
    def part(self, flat: Mapping[str, Any]) -> Any:
        """Return the known part of a value, as ``apart`` accepts it. None if no parameter is known."""

    @abc.abstractmethod
    def call(self) -> str:
        """Return the code that makes it."""


@dataclass(frozen=True)
class Leaf(ParameterNode):
    """One domain."""

    path: str
    domain: Domain

    def parameters(self) -> Iterator[tuple[str, Domain]]:
        yield self.path, self.domain

    def is_whole(self, flat: Mapping[str, Any]) -> bool:
        return self.path in flat

    def assemble(self, flat: Mapping[str, Any]) -> Any:
        return flat[self.path]

    def apart(self, value: Any) -> dict[str, Any]:
        return {self.path: value}

    def part(self, flat: Mapping[str, Any]) -> Any:
        return flat.get(self.path)

    def call(self) -> str:
        return repr(self.domain)


@dataclass(frozen=True)
class Filled(ParameterNode):
    """A sequence that contains domains."""

    path: str
    template: ValueSequence
    slots: Mapping[str, ParameterNode]

    def parameters(self) -> Iterator[tuple[str, Domain]]:
        for node in self.slots.values():
            yield from node.parameters()

    def is_whole(self, flat: Mapping[str, Any]) -> bool:
        return all(node.is_whole(flat) for node in self.slots.values())

    def assemble(self, flat: Mapping[str, Any]) -> Any:
        return templates.fill(self.template, {slot: node.assemble(flat) for slot, node in self.slots.items()}).to_json()

    def apart(self, value: Any) -> dict[str, Any]:
        if is_sequence(value):
            sequence = value if isinstance(value, ValueSequence) else from_json(value)
            given = templates.match(self.template, sequence)
        elif isinstance(value, Mapping):
            given = dict(self._given("", value))
        else:
            raise SpaceError(
                f"{show(value)} is not a sequence: write what {self.template!r} can be, or a mapping of "
                f"its parameters, {{{next(iter(self.slots))!r}: ...}}."
            )
        found: dict[str, Any] = {}
        for slot, item in given.items():
            found.update(self.slots[slot].apart(item))
        return found

    def part(self, flat: Mapping[str, Any]) -> Any:
        found: dict[str, Any] = {}
        for slot, node in self.slots.items():
            *groups, name = slot.split(".")
            item = node.assemble(flat) if node.is_whole(flat) else node.part(flat)
            if item is not None:
                level = found
                for group in groups:
                    level = level.setdefault(group, {})
                level[name] = item
        return found or None

    def call(self) -> str:
        return repr(self.template)

    def _given(self, prefix: str, value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
        for name, item in value.items():
            slot = f"{prefix}{name}"
            if slot in self.slots:
                yield slot, item
            elif isinstance(item, Mapping) and any(other.startswith(f"{slot}.") for other in self.slots):
                yield from self._given(f"{slot}.", item)
            else:
                raise SpaceError(
                    f"{self.template!r} has no open parameter {slot!r}: they are {', '.join(map(repr, self.slots))}."
                )


@dataclass(frozen=True)
class Chosen(ParameterNode):
    """A choice with sequences among its values that have domains in them."""

    path: str
    choice: Choice
    options: Mapping[int, Filled]
    """Index of the value -> the sequence."""
    labels: Mapping[int, str]
    """Index of the value -> how its parameters are named."""

    def parameters(self) -> Iterator[tuple[str, Domain]]:
        yield self.path, self.choice
        for index, option in self.options.items():
            chosen = (Condition(self.path, (self.choice.values[index],)),)
            for name, domain in option.parameters():
                # What is open deeper inside depends on a choice there, which depends on this one.
                yield name, domain if domain.conditions else domain.under(chosen)

    def is_whole(self, flat: Mapping[str, Any]) -> bool:
        if self.path not in flat:
            return False
        option = self._option(flat)
        return option is None or option.is_whole(flat)

    def assemble(self, flat: Mapping[str, Any]) -> Any:
        option = self._option(flat)
        return flat[self.path] if option is None else option.assemble(flat)

    def apart(self, value: Any) -> dict[str, Any]:
        if self.choice.contains(value):
            return {self.path: value}
        for index, label in self.labels.items():
            if isinstance(value, Mapping) and list(value) == [label] and isinstance(value[label], Mapping):
                return {self.path: self.choice.values[index], **self.options[index].apart(value[label])}
        for index, option in self.options.items():
            found = self._found(option, value)
            if found is not None:
                return {self.path: self.choice.values[index], **found}
        raise SpaceError(f"{show(value)} is none of {self.call()}: write one of them, with its domains decided.")

    def part(self, flat: Mapping[str, Any]) -> Any:
        if self.path not in flat:
            return None
        index = self._index(flat)
        if index not in self.options:
            return flat[self.path]
        return {self.labels[index]: self.options[index].part(flat) or {}}

    def call(self) -> str:
        return repr(self.choice)

    def _index(self, flat: Mapping[str, Any]) -> int:
        return self.choice.index(flat[self.path])

    def _option(self, flat: Mapping[str, Any]) -> Filled | None:
        return self.options.get(self._index(flat))

    def _found(self, option: Filled, value: Any) -> dict[str, Any] | None:
        if not is_sequence(value):
            return None
        try:
            found = option.apart(value)
        except SpaceError:
            return None
        domains = dict(option.parameters())
        return found if all(domains[name].contains(item) for name, item in found.items()) else None


def node_of(path: str, value: Domain | ValueSequence) -> ParameterNode:
    """Return the node of a value at a place of the space.

    Raises:
        SpaceError: a domain inside a sequence has conditions.
    """
    if isinstance(value, ValueSequence):
        return _filled(path, value)
    if isinstance(value, Choice) and value.templates:
        kinds = Counter(template.kind for template in value.templates.values())
        seen: Counter[str] = Counter()
        labels = {}
        for index, template in value.templates.items():
            seen[template.kind] += 1
            several = kinds[template.kind] > 1 and seen[template.kind] > 1
            labels[index] = f"{template.kind}_{seen[template.kind]}" if several else template.kind
        options = {index: _filled(f"{path}.{labels[index]}", template) for index, template in value.templates.items()}
        return Chosen(path, value, options, labels)
    return Leaf(path, value)


def _filled(path: str, template: ValueSequence) -> Filled:
    slots = {}
    for slot, domain in templates.slots(template):
        assert isinstance(domain, Domain)
        if domain.conditions:
            raise SpaceError(
                f"{path}.{slot}: {domain!r} stands in a sequence, and exists wherever that does: put .when(...) on the "
                f"sequence, choice({template.kind}(...)).when(...)."
            )
        slots[slot] = node_of(f"{path}.{slot}", domain)
    return Filled(path, template, slots)
