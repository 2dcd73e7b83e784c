"""Parameters that are templates, sequences that contain domains: from one value to flat parameters and back.

    Leaf      one domain, one parameter
    Filled    a sequence with domains in it: a parameter for each of them, ``lr.gamma``
    Grouped   a dictionary with domains in it, which is one of a choice
    Chosen    a choice with such sequences or dictionaries among its values: a parameter for the choice itself, ``lr``,
              and those of each of them, ``lr.cosine.total``, which exist only where it is chosen

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
from asyncsearch.space.domains import Choice, Constant, Domain
from asyncsearch.space.dotted_names import flatten_params, flatten_space, put
from asyncsearch.space.parameter_values import copy_plain, show


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

    @property
    @abc.abstractmethod
    def has_template(self) -> bool:
        """Whether it may be a sequence whose domains are decided by parameters."""


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

    @property
    def has_template(self) -> bool:
        return False


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

    @property
    def has_template(self) -> bool:
        return True

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
class Grouped(ParameterNode):
    """A dictionary that contains domains, as a value of a choice."""

    path: str
    group: Mapping[str, Any]
    members: Mapping[str, ParameterNode]
    """Dotted name inside the dictionary -> node."""

    def parameters(self) -> Iterator[tuple[str, Domain]]:
        for node in self.members.values():
            yield from node.parameters()

    def is_whole(self, flat: Mapping[str, Any]) -> bool:
        return all(node.is_whole(flat) or not _exists(node, flat) for node in self.members.values())

    def assemble(self, flat: Mapping[str, Any]) -> Any:
        found: dict[str, Any] = {}
        for name, node in self.members.items():
            if node.is_whole(flat):
                put(found, name, copy_plain(node.assemble(flat)))
        return found

    def apart(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, item in flatten_params(value, self.members).items():
            found.update(self.members[name].apart(item))
        return found

    def part(self, flat: Mapping[str, Any]) -> Any:
        found: dict[str, Any] = {}
        for name, node in self.members.items():
            item = node.assemble(flat) if node.is_whole(flat) else node.part(flat)
            if item is not None:
                put(found, name, copy_plain(item))
        return found or None

    def call(self) -> str:
        return repr(dict(self.group))

    @property
    def has_template(self) -> bool:
        return any(node.has_template for node in self.members.values())

    def constants(self) -> dict[str, Any]:
        """Return the identities of the values that it always has, by dotted name."""
        domains = {name: node.domain for name, node in self.members.items() if isinstance(node, Leaf)}
        return {name: domain.identity for name, domain in domains.items() if isinstance(domain, Constant)}


def _exists(node: ParameterNode, flat: Mapping[str, Any]) -> bool:
    """Return whether the conditions of a node's own parameter hold."""
    _, domain = next(iter(node.parameters()))
    return all(condition.holds(flat) for condition in domain.conditions)


@dataclass(frozen=True)
class Chosen(ParameterNode):
    """A choice with sequences or dictionaries among its values that have domains in them."""

    path: str
    choice: Choice
    options: Mapping[int, Filled | Grouped]
    """Index of the value -> the sequence or the dictionary."""
    labels: Mapping[int, str]
    """Index of the value -> how its parameters are named."""

    def parameters(self) -> Iterator[tuple[str, Domain]]:
        yield self.path, self.choice
        for index, option in self.options.items():
            chosen = (Condition(self.path, (self.choice.values[index],)),)
            for name, domain in option.parameters():
                # What is open deeper inside a sequence depends on a choice there, which depends on this one.
                is_deeper = bool(domain.conditions) and isinstance(option, Filled)
                yield name, domain if is_deeper else domain.under(chosen)

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

    @property
    def has_template(self) -> bool:
        return any(option.has_template for option in self.options.values())

    def _index(self, flat: Mapping[str, Any]) -> int:
        return self.choice.index(flat[self.path])

    def _option(self, flat: Mapping[str, Any]) -> Filled | Grouped | None:
        return self.options.get(self._index(flat))

    def _found(self, option: Filled | Grouped, value: Any) -> dict[str, Any] | None:
        if is_sequence(value) != isinstance(option, Filled) or not (is_sequence(value) or isinstance(value, Mapping)):
            return None
        try:
            found = option.apart(value)
        except SpaceError:
            return None
        domains = dict(option.parameters())
        if isinstance(option, Grouped) and not option.is_whole(found):
            return None
        return found if all(domains[name].contains(item) for name, item in found.items()) else None


def node_of(path: str, value: Domain | ValueSequence) -> ParameterNode:
    """Return the node of a value at a place of the space.

    Raises:
        SpaceError: a domain inside a sequence has conditions.
    """
    if isinstance(value, ValueSequence):
        return _filled(path, value)
    if isinstance(value, Choice) and (value.templates or value.groups):
        names = {index: template.kind for index, template in value.templates.items()}
        names |= {index: _name_of(index, group) for index, group in value.groups.items()}
        counts, seen = Counter(names.values()), Counter[str]()
        labels = {}
        for index, name in sorted(names.items()):
            seen[name] += 1
            labels[index] = f"{name}_{seen[name]}" if counts[name] > 1 and seen[name] > 1 else name
        options: dict[int, Filled | Grouped] = {
            index: _filled(f"{path}.{labels[index]}", template) for index, template in value.templates.items()
        }
        for index, group in value.groups.items():
            options[index] = _grouped(f"{path}.{labels[index]}", group)
        _require_different(path, [option for option in options.values() if isinstance(option, Grouped)])
        return Chosen(path, value, options, labels)
    return Leaf(path, value)


_NAMES = ("kind", "name", "type", "model", "_name")
"""Where a dictionary of a choice usually says what it is."""


def _name_of(index: int, group: Mapping[str, Any]) -> str:
    """Return how the parameters of a dictionary are named: as what it says that it is, else by its place."""
    texts = [group[key] for key in (*_NAMES, *group) if isinstance(group.get(key), str)]
    return next((text for text in texts if text.isidentifier()), f"option_{index}")


def _grouped(path: str, group: Mapping[str, Any]) -> Grouped:
    names = flatten_space(group)
    return Grouped(path, group, {name: node_of(f"{path}.{name}", value) for name, value in names.items()})


def _require_different(path: str, groups: list[Grouped]) -> None:
    """Refuse dictionaries that a configuration could not tell apart.

    Raises:
        SpaceError: two have the same names, and no constant is different.
    """
    for at, one in enumerate(groups):
        for other in groups[at + 1 :]:
            mine, theirs = one.constants(), other.constants()
            if one.members.keys() == other.members.keys() and not any(
                mine[name] != theirs[name] for name in mine.keys() & theirs.keys()
            ):
                raise SpaceError(
                    f"{path}: {one.call()} and {other.call()} may have the same values, so that nobody could tell "
                    "which was chosen: give each a constant of its own, such as 'kind': 'a'."
                )


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
