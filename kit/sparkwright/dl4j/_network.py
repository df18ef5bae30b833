"""Reads networks of Deeplearning4j: graph, parameters, loss, and updater with its state."""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sparkwright.data.normalizer import Normalizer
from sparkwright.errors import DataError
from sparkwright.storage.files import open_to_read

from ._files import Array, Stored, Unmapped, damaged, read_file, read_normalizer
from ._layers import Layers, Parameter, Settings, image_shape, kind_of, lowered

Shapes = Mapping[str, Sequence[int | None]]
# Keras' name, and whether Deeplearning4j sums over the outputs where Keras takes the mean.
_LOSSES = {
    "MCXENT": ("categorical_crossentropy", False),
    "NegativeLogLikelihood": ("categorical_crossentropy", False),
    "SparseMCXENT": ("sparse_categorical_crossentropy", False),
    "BinaryXENT": ("binary_crossentropy", True),
    "MSE": ("mean_squared_error", False),
    "L2": ("mean_squared_error", True),
    "MAE": ("mean_absolute_error", False),
    "L1": ("mean_absolute_error", True),
    "KLD": ("kl_divergence", False),
    "Poisson": ("poisson", True),
    "Hinge": ("hinge", True),
    "SquaredHinge": ("squared_hinge", True),
    "MAPE": ("mean_absolute_percentage_error", False),
    "MSLE": ("mean_squared_logarithmic_error", False),
    "CosineProximity": ("cosine_similarity", False),
}


class _Updater(NamedTuple):
    """An optimizer of Keras, its arguments by Deeplearning4j's names, and its state in order."""

    name: str
    renamed: dict[str, str]
    fixed: dict[str, Any]
    slots: tuple[str, ...]


_ADAM = {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"}
_UPDATERS = {
    "Sgd": _Updater("SGD", {}, {}, ()),
    "Nesterovs": _Updater("SGD", {"momentum": "momentum"}, {"nesterov": True}, ("momentum",)),
    "Adam": _Updater("Adam", _ADAM, {}, ("momentum", "velocity")),
    "AMSGrad": _Updater("Adam", _ADAM, {"amsgrad": True}, ("momentum", "velocity", "velocity_hat")),
    "AdaMax": _Updater("Adamax", _ADAM, {}, ("momentum", "norm")),
    "Nadam": _Updater("Nadam", _ADAM, {}, ("momentum", "velocity")),
    "AdaGrad": _Updater("Adagrad", {}, {"initial_accumulator_value": 0.0}, ("accumulator",)),
    "RmsProp": _Updater("RMSprop", {"rmsdecay": "rho", "epsilon": "epsilon"}, {}, ("velocity",)),
    "AdaDelta": _Updater(
        "Adadelta",
        {"rho": "rho", "epsilon": "epsilon"},
        {},
        ("accumulated_grad", "accumulated_delta_var"),
    ),
}


def import_dl4j(
    url: str, *, input_shapes: Shapes | None = None
) -> tuple[Any, Normalizer | None]:
    """Read a network that Deeplearning4j's `ModelSerializer` wrote.

    Inputs and outputs have channels last: images (n, height, width, channels), sequences
    (n, steps, features). A flat image of `convolutionalFlat` keeps its order. Nothing of the file
    is executed. What only training needs and Keras lacks is left out, with one warning.

    Args:
        url: the ZIP, of 1.0.0-beta4 or newer. A local path counts as a URL.
        input_shapes: input name -> shape of an example, channels last; the input of a
            MultiLayerNetwork is "input". Default None: of the first layers, where None is any
            length, as height and width of images are.

    Returns:
        The compiled keras.Model, functional, with the state of the updater; and the normalizer, or
        None.

    Raises:
        OSError: of the store, naming the URL.
        DataError: if the file is damaged or no network, or a part of the network has no counterpart
            in Keras; names the URL and the part.
    """
    with open_to_read(url) as file:
        stored = read_file(file, url)
    try:
        network = _Network(stored, input_shapes or {})
        model, normalizer = network.model(), network.normalizer()
    except Unmapped as error:
        raise DataError(
            f"every part of the network must have a counterpart in Keras. Received: {url} with "
            f"{error}. Build that part with Keras, or save the network without it."
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # of Keras, or of settings that are not as they should be
        raise damaged(url, f"{type(error).__name__}: {error}") from error
    if network.left_out:
        listed = "; ".join(dict.fromkeys(network.left_out))
        warnings.warn(f"{url} was read without {listed}.", stacklevel=2)
    return model, normalizer


class _Unit(NamedTuple):
    name: str
    settings: Settings
    sources: tuple[str, ...]
    preprocessor: Settings | None
    is_layer: bool


class _Network:
    """What becomes of the content of a file.

    Attributes:
        left_out: what training loses.
    """

    def __init__(self, stored: Stored, shapes: Shapes) -> None:
        """Find the layers and vertices, in the order of their parameters."""
        self._stored, self._shapes, self._layers = stored, shapes, Layers()
        found = stored.configuration
        self._outputs: list[str]
        if "confs" in found:
            before = {int(n): p for n, p in (found.get("inputPreProcessors") or {}).items()}
            confs = [lowered(conf["layer"]) for conf in found["confs"]]
            names = [c.get("layername") or f"layer{n}" for n, c in enumerate(confs)]
            sources = ["input", *names]
            self._inputs, self._outputs = ["input"], names[-1:]
            self._units = [
                _Unit(name, c, (sources[n],), lowered(before.get(n)), True)
                for n, (name, c) in enumerate(zip(names, confs, strict=True))
            ]
        elif "vertices" in found:
            self._inputs, self._outputs = found["networkInputs"], found["networkOutputs"]
            order = found.get("topologicalOrderStr")
            if not order:
                raise Unmapped("a graph without its order, saved before 1.0.0-beta4")
            self._units = [
                _unit(name, found["vertices"][name], found["vertexInputs"][name])
                for name in order
                if name not in self._inputs
            ]
        else:
            raise Unmapped("neither a MultiLayerNetwork nor a ComputationGraph")
        self.left_out = self._layers.left_out
        self.left_out += stored.left_out

    def normalizer(self) -> Normalizer | None:
        """Return the normalizer, if it has a counterpart."""
        try:
            content = self._stored.normalizer
            return content and read_normalizer(content, self._inputs, self._outputs)
        except Unmapped as error:
            self.left_out.append(str(error))
            return None

    def model(self) -> Any:
        """Return the compiled model with all parameters."""
        import keras

        tensors = {name: keras.Input(self._shape(name), name=_safe(name)) for name in self._inputs}
        inputs = list(tensors.values())
        for unit in self._units:
            xs, name = [tensors[source] for source in unit.sources], _safe(unit.name)
            if unit.is_layer:
                x = self._layers.preprocessed(unit.preprocessor, xs[0])
                tensors[unit.name] = self._layers.layer(name, unit.settings, x)
            else:
                tensors[unit.name] = self._layers.vertex(name, unit.settings, xs)
        outputs = [tensors[name] for name in self._outputs]
        one = len(inputs) == 1, len(outputs) == 1
        model = keras.Model(inputs[0] if one[0] else inputs, outputs[0] if one[1] else outputs)
        parameters = self._layers.parameters
        if (size := sum(each.size for each in parameters)) != self._stored.parameters.size:
            raise ValueError(f"{self._stored.parameters.size} parameters, its layers have {size}")
        _assign(self._stored.parameters, [(each, each.variable) for each in parameters])
        self._compile(model, [tensor.shape[-1] for tensor in outputs])
        return model

    def _shape(self, name: str) -> Sequence[int | None]:
        """Return the shape of an example of an input."""
        if name in self._shapes:
            return tuple(self._shapes[name])
        first = next(unit for unit in self._units if name in unit.sources)
        p, c = first.preprocessor, first.settings
        if p is not None and "inputheight" in p:
            height, width, channels = image_shape(p)
            if kind_of(p).startswith("Cnn"):
                return height, width, channels
            return (height * width * channels,)
        while inner := c.get("underlying") or c.get("fwd") or (c.get("layer")):
            c = inner
        kind = kind_of(c)
        if kind.startswith("Embedding"):
            return (1,) if kind == "EmbeddingLayer" else (None,)
        axes = next((n for n, kinds in _AXES.items() if kind in kinds), None)
        if axes is None or not c.get("nin"):
            raise Unmapped(
                f"an input {name!r} of unknown shape: give `input_shapes={{{name!r}: …}}`"
            )
        return *(None,) * (1 if p is not None else axes), c["nin"]

    def _compile(self, model: Any, widths: Sequence[int]) -> None:
        losses: list[str | None] = []
        weights: list[float] = []
        settings = {unit.name: unit.settings for unit in self._units}
        for name, width in zip(self._outputs, widths, strict=True):
            loss = settings[name].get("lossfn")
            kind = "" if loss is None else kind_of(loss).removeprefix("Loss")
            found, is_sum = _LOSSES.get(kind, (None, False))
            if found is None:
                self.left_out.append(f"the loss {kind} of {name!r}" if kind else f"a loss of {name!r}")
            elif loss.get("weights") is not None:
                self.left_out.append(f"the weights in the loss of {name!r}")
            losses.append(found)
            weights.append(float(width) if is_sum else 1.0)
        parameters = [each for each in self._layers.parameters if each.role != "statistic"]
        chosen = _updater_of(parameters[-1]) if parameters else None
        optimizer = self._optimizer(chosen)
        options = {"loss_weights": weights} if set(weights) != {1.0} else {}
        model.compile(optimizer, losses[0] if len(losses) == 1 else losses, **options)
        optimizer.build(model.trainable_variables)
        optimizer.iterations.assign(int(self._stored.configuration.get("iterationCount") or 0))
        if self._stored.updater is not None:
            self._restore_updater(self._stored.updater, chosen, optimizer)

    def _optimizer(self, u: Settings | None) -> Any:
        """Return the optimizer for an updater; without a counterpart SGD."""
        import keras

        kind = "" if u is None else kind_of(u)
        updater = _UPDATERS.get(kind)
        if u is None or updater is None:
            self.left_out.append(f"the updater {kind}" if kind else "an updater")
            return keras.optimizers.SGD()
        if u.get("momentumischedule") or u.get("momentumschedule"):
            self.left_out.append("the schedule of the momentum")
        given = {ours: u[theirs] for theirs, ours in updater.renamed.items()}
        if kind == "AdaGrad":  # Keras adds it inside the root
            given["epsilon"] = u["epsilon"] ** 2
        if kind == "Nadam":
            self.left_out.append("Nadam's formula: Keras has another")
        rate: Any = u.get("learningrate", 1.0)
        if (schedule := u.get("learningrateschedule")) is not None:
            rate = self._schedule(schedule)
        return getattr(keras.optimizers, updater.name)(rate, **given, **updater.fixed)

    def _schedule(self, s: Settings) -> Any:
        """Return the learning rate: a schedule of Keras, or where it begins."""
        from keras.optimizers import schedules

        kind, first = kind_of(s).removesuffix("Schedule"), s.get("initialvalue", s.get("value"))
        if kind == "Fixed":
            return first
        if s.get("scheduletype") == "ITERATION":
            if kind == "Exponential":
                return schedules.ExponentialDecay(first, 1, s["gamma"])
            if kind == "Step":
                return schedules.ExponentialDecay(first, s["step"], s["decayrate"], staircase=True)
            if kind == "Poly":
                return schedules.PolynomialDecay(first, s["maxiter"], 0.0, s["power"])
        self.left_out.append(f"the {kind} schedule of the learning rate")
        return 1e-3 if first is None else first

    def _restore_updater(self, state: Array, chosen: Settings | None, optimizer: Any) -> None:
        """Read the state: block after block of layers with one updater, slot after slot."""
        variables = {variable.path: variable for variable in optimizer.variables}
        at = 0
        for text, group in groupby(self._layers.parameters, lambda each: _text(_updater_of(each))):
            members, u = list(group), json.loads(text)
            updater = None if u is None else _UPDATERS.get(kind_of(u))
            if u is not None and (u != chosen or updater is None):
                self.left_out.append(f"the updater {kind_of(u)} of {members[0].layer['name']!r}")
            for slot in updater.slots if updater else ():
                paths = [f"{optimizer.name}/{m.variable.path.replace('/', '_')}_{slot}" for m in members]
                targets = [
                    (m, variables.get(path) if u == chosen and m.role != "folded" else None)
                    for m, path in zip(members, paths, strict=True)
                ]
                at = _assign(state, targets, at)
        if at != state.size:
            raise ValueError(f"the updater's state has {state.size} numbers and not {at}")


# How many axes precede the features, by the kind of a first layer.
_AXES = {
    0: ("DenseLayer", "OutputLayer"),
    1: (
        *("LSTM", "GravesLSTM", "SimpleRnn", "GravesBidirectionalLSTM", "RnnOutputLayer"),
        *("Convolution1DLayer", "Convolution1D"),
    ),
    2: ("ConvolutionLayer", "Convolution2D"),
}


def _unit(name: str, vertex: Settings, sources: Sequence[str]) -> _Unit:
    settings = lowered(vertex)
    if kind_of(vertex) != "LayerVertex":
        return _Unit(name, settings, tuple(sources), None, False)
    layer = settings["layerconf"]["layer"]
    return _Unit(name, layer, tuple(sources), settings.get("preprocessor"), True)


def _assign(flat: Array, targets: Sequence[tuple[Parameter, Any]], at: int = 0) -> int:
    """Assign consecutive parts of `flat`, from `at`; return where the last one ends."""
    for each, variable in targets:
        part = flat[at : at + each.size]
        at += each.size
        if len(part) < each.size:
            raise ValueError(f"{at} numbers expected, {flat.size} found")
        if variable is not None:
            variable.assign(each.convert(part).astype(np.float32))
    return at


def _updater_of(each: Parameter) -> Settings | None:
    """Return the settings of a parameter's updater; None for one without state."""
    if each.role == "statistic" or not each.layer["trainable"]:
        return None
    own = each.layer.get("biasupdater") if each.role == "bias" else None
    found = own or each.layer.get("iupdater")
    return None if found is None or kind_of(found) == "NoOp" else found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _safe(name: str) -> str:
    """Return a name that Keras takes."""
    return re.sub(r"[^\w.-]+", "_", name)
