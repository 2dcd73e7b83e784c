"""Maggy's ``AblationStudy`` as an ``Ablation`` of asyncsearch: one base trial, and one without each component.

``study.ablation()`` of the experiment's study is the table of the differences.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from asyncsearch.ablation.left_out import PARAMETER, Ablated
from asyncsearch.errors import UsageError
from asyncsearch.searchers.ablation import SEED, Ablation
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import Params

_GROUP = "layers "
_PREFIX = "Layers prefixed "
_CUSTOM = "Custom model: "
_NONE = "None"
"""Maggy's word for nothing."""


class AblationStudy:
    """The parts to leave out: features of the data, layers of a Keras model, and models of the program's own instead.

    Example::

        study = AblationStudy("titanic", 1, label_name="survived", dataset_generator=load)
        study.features.include("fare", "pclass")
        study.model.layers.include("dense_two")
        study.model.layers.include_groups(prefix="conv")
        study.model.set_base_model_generator(build)
    """

    def __init__(
        self,
        training_dataset_name: str = "",
        training_dataset_version: int | str = 1,
        label_name: str = "",
        dataset_generator: Callable[..., Any] | None = None,
    ) -> None:
        """Begin with nothing left out; the data is what ``dataset_generator`` returns, not a feature store's."""
        self.features = AblationFeatures()
        self.model = AblationModel()
        self.training_dataset_name, self.label_name = training_dataset_name, label_name
        self.training_dataset_version = training_dataset_version
        self.custom_dataset_generator = dataset_generator or None

    def set_dataset_generator(self, dataset_generator: Callable[..., Any]) -> None:
        """Set the function that returns the data: see ``asyncsearch.maggy``'s page."""
        self.custom_dataset_generator = dataset_generator

    def to_dict(self) -> dict[str, Any]:
        """Return the description as Maggy does."""
        return {
            "training_dataset_name": self.training_dataset_name,
            "training_dataset_version": self.training_dataset_version,
            "label_name": self.label_name,
            "included_features": list(self.features.included_features),
            "included_layers": list(self.model.layers.included_layers),
            "custom_dataset_generator": bool(self.custom_dataset_generator),
        }


class _Names:
    """Names in the order in which they were included, each once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._names: dict[str, None] = {}

    def include(self, *names: str | list[str]) -> None:
        """Include names, one by one or in lists."""
        self._names.update(dict.fromkeys(self._flat("include", names)))

    def exclude(self, *names: str | list[str]) -> None:
        """Take names back."""
        for name in self._flat("exclude", names):
            self._names.pop(name, None)

    def list_all(self) -> None:
        """Print the names."""
        for name in self._names:
            print(name)  # noqa: T201  # that is what it is for

    def _flat(self, method: str, names: Iterable[Any]) -> list[str]:
        found = [one for given in names for one in (given if isinstance(given, list | tuple) else [given])]
        wrong = next((one for one in found if not isinstance(one, str)), None)
        if wrong is not None:
            raise UsageError(f"{self._what}.{method}({wrong!r}): write names, or lists of names.")
        return found


class AblationFeatures(_Names):
    """The features, each left out in a trial."""

    def __init__(self) -> None:
        super().__init__("features")

    @property
    def included_features(self) -> list[str]:
        """Their names."""
        return list(self._names)


class AblationLayers(_Names):
    """The layers, each left out in a trial, and groups of layers, each left out together."""

    def __init__(self) -> None:
        super().__init__("layers")
        self._groups: dict[tuple[str, ...], None] = {}

    @property
    def included_layers(self) -> list[str]:
        """Their names."""
        return list(self._names)

    @property
    def included_groups(self) -> list[tuple[str, ...]]:
        """The groups: names, or one prefix of names."""
        return list(self._groups)

    print_all = _Names.list_all

    def print_all_groups(self) -> None:
        """Print the groups."""
        for group in self._groups:
            print(_group_name(group))  # noqa: T201  # that is what it is for

    def include_groups(self, *groups: list[str], prefix: str | None = None) -> None:
        """Include lists of names, and all layers whose names begin with a prefix."""
        self._groups.update(dict.fromkeys(_groups("include_groups", groups, prefix)))

    def exclude_groups(self, *groups: list[str], prefix: str | None = None) -> None:
        """Take groups back."""
        for group in _groups("exclude_groups", groups, prefix):
            self._groups.pop(group, None)


def _groups(method: str, groups: Iterable[Any], prefix: Any) -> list[tuple[str, ...]]:
    found = [] if prefix is None else [prefix]
    wrong = next((one for one in found if not isinstance(one, str) or not one), None)
    for group in groups:
        is_list = isinstance(group, list | tuple) and len(group) > 1 and all(isinstance(one, str) for one in group)
        wrong = wrong if is_list else group
    if wrong is not None:
        raise UsageError(
            f"layers.{method}({wrong!r}): write lists of two names or more, or prefix='dense'; a single layer is "
            "layers.include('dense_1')."
        )
    return [*[(one,) for one in found], *[tuple(sorted(group)) for group in groups]]


class AblationModel:
    """The base model, its layers, and other models that are tried in its place."""

    def __init__(self) -> None:
        self.layers = AblationLayers()
        self.base_model_generator: Callable[..., Any] | None = None
        self.custom_model_generators: list[tuple[Callable[..., Any], str]] = []

    def set_base_model_generator(self, base_model_generator: Callable[..., Any]) -> None:
        """Set the function that returns the model with everything."""
        self.base_model_generator = base_model_generator

    def add_custom_model_generator(self, custom_model_generator: Callable[..., Any], model_identifier: str) -> None:
        """Add a function that returns another model, which one trial trains, and its name."""
        self.custom_model_generators.append((custom_model_generator, model_identifier))


class AblatedParts(NamedTuple):
    """The parts that a trial lacks, in Maggy's words."""

    ablated_feature: str
    ablated_layer: str


def parts_of(params: Params) -> AblatedParts:
    """Return the parts that a trial with these parameters lacks."""
    component = next(iter(Ablated.of(params.get(PARAMETER)).components), None)
    if component is None:
        return AblatedParts(_NONE, _NONE)
    if component.kind == "feature":
        return AblatedParts(component.name, _NONE)
    return AblatedParts(_NONE, component.name.removeprefix(_GROUP))


class AblationCall:
    """The arguments of a function in an ablation study: what builds its data and its model."""

    hidden = (PARAMETER, SEED)

    def __init__(self, study: AblationStudy) -> None:
        self._data, self._model = study.custom_dataset_generator, study.model.base_model_generator
        self._groups = {_group_name(group): group for group in study.model.layers.included_groups}
        self._models = {f"{_CUSTOM}{name}": generator for generator, name in study.model.custom_model_generators}

    def arguments(self, trial: TrialContext) -> dict[str, Any]:
        """Return name -> value of what a function may take."""
        parts = parts_of(trial.params)
        return {
            "dataset_function": lambda *args, **named: self._dataset(trial, parts, args, named),
            "model_function": lambda *args, **named: self._net(trial, args, named),
            "ablations": parts._asdict(),
            **parts._asdict(),
        }

    def _dataset(self, trial: TrialContext, parts: AblatedParts, args: Any, named: Any) -> Any:
        """Return the data without the feature: by the generator itself if it takes its name, else column by column."""
        generator = self._data
        assert generator is not None
        takes = inspect.signature(generator).parameters
        if "ablated_feature" in takes:
            feature = None if parts.ablated_feature == _NONE else parts.ablated_feature
            return generator(*args, **{"ablated_feature": feature, **named})
        return trial.ablation.data(generator(*args, **named))

    def _net(self, trial: TrialContext, args: Any, named: Any) -> Any:
        for name, generator in self._models.items():
            if not trial.ablation.keeps(name):
                return generator(*args, **named)
        assert self._model is not None
        net = self._model(*args, **named)
        single = [one.name for one in trial.ablation.ablated.components if one.kind == "layer"]
        left_out = next((group for name, group in self._groups.items() if not trial.ablation.keeps(name)), None)
        if not single and left_out is None:
            return net
        names = single if left_out is None else _layers_of(net, left_out)
        if not getattr(net, "built", True) and type(net).__name__ == "Sequential":
            return _shorter(net, names)
        from asyncsearch.ablation import keras_layers

        return keras_layers.without(net, names)


def _shorter(net: Any, names: list[str]) -> Any:
    """Return a sequential model, whose shapes are not known yet, without layers: what follows takes what comes."""
    inner = {layer.name for layer in net.layers[1:-1]}
    missing = [name for name in names if name not in inner]
    if missing:
        raise UsageError(
            f"The model has no layer {missing[0]!r} between its first and its last one: there is "
            f"{', '.join(sorted(inner))}."
        )
    return type(net)([type(one).from_config(one.get_config()) for one in net.layers if one.name not in names])


def _group_name(group: tuple[str, ...]) -> str:
    return f"{_PREFIX}{group[0]}" if len(group) == 1 else f"{_GROUP}{', '.join(group)}"


def _layers_of(net: Any, group: tuple[str, ...]) -> list[str]:
    """Return the layers of a group; as in Maggy a prefix leaves the first and the last layer of the model."""
    if len(group) > 1:
        return list(group)
    inner = [layer.name for layer in net.layers[1:-1]]
    return [name for name in inner if name.lower().startswith(group[0].lower())] or [f"{group[0]}*"]


def searcher_of_study(study: Any, ablator: Any) -> Ablation:
    """Return the searcher of an ablation study.

    Raises:
        UsageError: it describes nothing that can be left out, or lacks what builds the data or the model.
    """
    if not isinstance(study, AblationStudy):
        raise UsageError(f"ablation_study={study!r}: give an AblationStudy of asyncsearch.maggy.ablation.")
    if not isinstance(ablator, str) or ablator.lower() != "loco":
        raise UsageError(
            f"ablator={ablator!r}: write ablator='loco', which leaves out one component at a time; other plans are "
            "asyncsearch's Ablation(groups=..., pairs=True)."
        )
    features, layers = study.features.included_features, study.model.layers
    needs_model = bool(layers.included_layers or layers.included_groups)
    if needs_model and study.model.base_model_generator is None:
        raise UsageError("Layers are left out of a model: write ablation_study.model.set_base_model_generator(build).")
    if features and study.custom_dataset_generator is None:
        raise UsageError(
            f"The features of {study.training_dataset_name!r} would come from a feature store, to which there is no "
            "way from here: give a function that returns the data, AblationStudy(..., dataset_generator=load)."
        )
    groups = [_group_name(group) for group in layers.included_groups]
    models = [f"{_CUSTOM}{name}" for _, name in study.model.custom_model_generators]
    return Ablation(features=features, layers=layers.included_layers, custom=[*groups, *models], seeds=1)
