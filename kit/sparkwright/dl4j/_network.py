"""Import Deeplearning4j networks: graph, parameters, losses, and the updater with its state."""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sparkwright.errors import DataError
from sparkwright.normalizers.normalizer import Normalizer
from sparkwright.storage.files import open_to_read

from ._files import Array, Stored, Unmapped, damaged, read_file, read_normalizer
from ._layers import Layers, Parameter, Settings, kind_of, lowered

Shapes = Mapping[str, Sequence[int | None]]
_LOSSES = {
    **dict.fromkeys(("MCXENT", "NegativeLogLikelihood"), "categorical_crossentropy"),
    "SparseMCXENT": "sparse_categorical_crossentropy",
    "BinaryXENT": "binary_crossentropy",
    **dict.fromkeys(("MSE", "L2"), "mean_squared_error"),
    **dict.fromkeys(("MAE", "L1"), "mean_absolute_error"),
    **{"KLD": "kl_divergence", "Poisson": "poisson", "CosineProximity": "cosine_similarity"},
    **{"Hinge": "hinge", "SquaredHinge": "squared_hinge"},
    "MAPE": "mean_absolute_percentage_error",
    "MSLE": "mean_squared_logarithmic_error",
}
# These losses sum over outputs, where Keras takes the mean.
_SUMS = ("BinaryXENT", "L2", "L1", "Poisson", "Hinge", "SquaredHinge")
_ADAM = {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"}
_DECAYING = {"rmsdecay": "rho", "rho": "rho", "epsilon": "epsilon"}
# Keras' class, Deeplearning4j's names -> its arguments, fixed arguments, and state in file order.
_UPDATERS: dict[str, tuple[str, dict[str, str], dict[str, Any], tuple[str, ...]]] = {
    "Sgd": ("SGD", {}, {}, ()),
    "Nesterovs": ("SGD", {"momentum": "momentum"}, {"nesterov": True}, ("momentum",)),
    "Adam": ("Adam", _ADAM, {}, ("momentum", "velocity")),
    "AMSGrad": ("Adam", _ADAM, {"amsgrad": True}, ("momentum", "velocity", "velocity_hat")),
    "AdaMax": ("Adamax", _ADAM, {}, ("momentum", "norm")),
    "Nadam": ("Nadam", _ADAM, {}, ("momentum", "velocity")),
    "AdaGrad": ("Adagrad", {}, {"initial_accumulator_value": 0.0}, ("accumulator",)),
    "RmsProp": ("RMSprop", _DECAYING, {}, ("velocity",)),
    "AdaDelta": ("Adadelta", _DECAYING, {}, ("accumulated_grad", "accumulated_delta_var")),
}
_ELEMENT_WISE: dict[Any, str] = {
    **{"Add": "Add", "Subtract": "Subtract", "Average": "Average", "Product": "Multiply"},
    **{"Max": "Maximum", "Min": "Minimum"},
}
# Number of axes before the features, by the class of the first layer.
_AXES = {
    **dict.fromkeys(("DenseLayer", "OutputLayer"), 0),
    **dict.fromkeys(("LSTM", "GravesLSTM", "SimpleRnn", "GravesBidirectionalLSTM"), 1),
    **dict.fromkeys(("RnnOutputLayer", "Convolution1DLayer"), 1),
    "ConvolutionLayer": 2,
}


def import_dl4j(url: str, *, input_shapes: Shapes | None = None) -> tuple[Any, Normalizer | None]:
    """Read a network that Deeplearning4j's `ModelSerializer` wrote.

    Inputs and outputs have channels last: images (n, height, width, channels), sequences
    (n, steps, features). Flat images keep their order. No code in the file is executed. Training
    settings without a counterpart in Keras are skipped, and one warning lists them.

    Args:
        url: URL or local path of the ZIP, from Deeplearning4j 1.0.0-beta7 or newer.
        input_shapes: input name -> shape of an example, channels last. The input of a
            MultiLayerNetwork is "input". Default None: inferred from the first layers, with None
            for height, width and steps.

    Returns:
        The compiled functional keras.Model with the updater's state, and the normalizer or None.

    Raises:
        OSError: if the store fails; names the URL.
        DataError: if the file is damaged, or a part of the network has no counterpart in Keras;
            names the URL and the part.
    """
    with open_to_read(url) as file:
        stored = read_file(file, url)
    try:
        network = _Network(stored, input_shapes or {})
        model, normalizer = network.model(), network.normalizer()
    except Unmapped as error:
        raise DataError(
            f"every part of the network must be supported by Keras. Received: {url} with "
            f"{error}. Build this part with Keras, or save the network without it."
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # from Keras, or from invalid settings
        raise damaged(url, f"{type(error).__name__}: {error}") from error
    if network.left_out:
        parts = "; ".join(dict.fromkeys(network.left_out))
        warnings.warn(f"not imported from {url}: {parts}.", stacklevel=2)
    return model, normalizer


class _Unit(NamedTuple):
    """A layer or vertex."""

    name: str
    settings: Settings
    sources: Sequence[str]
    preprocessor: Settings | None = None
    is_layer: bool = True


class _Network:
    """Converts the content of a file; `left_out` lists content without a counterpart."""

    def __init__(self, stored: Stored, shapes: Shapes) -> None:
        """Find the layers and vertices, in parameter order."""
        self._stored, self._shapes = stored, shapes
        self._layers = Layers(stored.parameters.size)
        self.left_out = self._layers.left_out
        self.left_out += stored.left_out
        found = stored.configuration
        if found.keys() & {"confs", "vertices"} and found.get("backpropType") != "Standard":
            self.left_out.append(f"the back-propagation {found.get('backpropType')}")
        self._inputs: list[str] = found.get("networkInputs") or ["input"]
        self._outputs: list[str] = found.get("networkOutputs") or []
        if "confs" in found:
            before = lowered(found.get("inputPreProcessors") or {})
            layers = [lowered(each["layer"]) for each in found["confs"]]
            names = [c.get("layername") or f"layer{n}" for n, c in enumerate(layers)]
            self._outputs = names[-1:]
            self._units = [
                _Unit(name, c, [source], before.get(str(n)))
                for n, (name, c, source) in enumerate(
                    zip(names, layers, [*self._inputs, *names[:-1]], strict=True)
                )
            ]
        elif "topologicalOrderStr" in found:
            self._units = [
                _unit(name, lowered(found["vertices"][name]), found["vertexInputs"][name])
                for name in found["topologicalOrderStr"]
                if name not in self._inputs
            ]
        else:
            raise Unmapped("neither a MultiLayerNetwork nor a ComputationGraph of 1.0.0")

    def normalizer(self) -> Normalizer | None:
        """Return the normalizer, if it has a counterpart."""
        try:
            if (content := self._stored.normalizer) is not None:
                return read_normalizer(content, self._inputs, self._outputs)
        except Unmapped as error:
            self.left_out.append(str(error))
        return None

    def model(self) -> Any:
        """Return the compiled model with all parameters."""
        import keras

        tensors = {n: keras.Input(self._shape(n), name=_safe(n)) for n in self._inputs}
        inputs = list(tensors.values())
        for unit in self._units:
            xs, name = [tensors[source] for source in unit.sources], _safe(unit.name)
            if unit.is_layer:
                x = _preprocessed(keras.layers, unit.preprocessor, xs[0])
                tensors[unit.name] = self._layers.layer(name, unit.settings, x)
            else:
                tensors[unit.name] = _vertex_output(keras.layers, name, unit.settings, xs)
        outputs = [tensors[name] for name in self._outputs]
        model = keras.Model(_bare(inputs), _bare(outputs))
        parameters = self._layers.parameters
        if (size := sum(each.size for each in parameters)) != self._stored.parameters.size:
            raise ValueError(f"{self._stored.parameters.size} parameters where {size} are needed")
        _assign(self._stored.parameters, [(each, each.variable) for each in parameters])
        self._compile(model, outputs)
        return model

    def _shape(self, name: str) -> Sequence[int | None]:
        """Return the shape of an example of an input."""
        if name in self._shapes:
            return tuple(self._shapes[name])
        first = next(unit for unit in self._units if name in unit.sources)
        p, c = first.preprocessor, first.settings
        if p is not None and "inputheight" in p:
            shape = _image_shape(p)
            return shape if kind_of(p).startswith("Cnn") else (int(np.prod(shape)),)
        while inner := c.get("underlying") or c.get("fwd") or c.get("layer"):
            c = inner
        kind = kind_of(c)
        if kind.startswith("Embedding"):
            return (1,) if kind == "EmbeddingLayer" else (None,)
        if kind not in _AXES or not c.get("nin"):
            raise Unmapped(f"an input of unknown shape: give `input_shapes={{{name!r}: …}}`")
        return *(None,) * (_AXES[kind] if p is None else 1), c["nin"]

    def _compile(self, model: Any, outputs: Sequence[Any]) -> None:
        losses: list[str | None] = []
        factors: list[float] = []
        settings = {unit.name: unit.settings for unit in self._units}
        for name, output in zip(self._outputs, outputs, strict=True):
            loss: Any = settings[name].get("lossfn")
            kind = kind_of(loss).removeprefix("Loss")
            losses.append(_LOSSES.get(kind))
            factors.append(float(output.shape[-1]) if kind in _SUMS else 1.0)
            if losses[-1] is None or loss.get("weights"):
                what = "the weights in the loss" if losses[-1] else f"the loss {kind}"
                self.left_out.append(f"{what} of {name!r}")
        trained = [each for each in self._layers.parameters if _updater_of(each)]
        chosen = _updater_of(trained[-1]) if trained else None
        optimizer = self._optimizer(chosen)
        model.compile(
            optimizer, _bare(losses), loss_weights=factors if set(factors) != {1.0} else None
        )
        optimizer.build(model.trainable_variables)
        if kind_of(chosen) == "Nadam":
            self.left_out.append("the updater's state, because Keras' Nadam has another formula")
            return
        optimizer.iterations.assign(self._stored.configuration.get("iterationCount") or 0)
        if self._stored.updater is not None:
            self._restore(self._stored.updater, chosen, optimizer)

    def _optimizer(self, u: Settings | None) -> Any:
        """Return the optimizer for an updater; SGD if it has no counterpart."""
        import keras

        kind = kind_of(u)
        if u is None or kind not in _UPDATERS:
            self.left_out.append(f"the updater {kind or '(none)'}")
            return keras.optimizers.SGD()
        name, renamed, fixed, _ = _UPDATERS[kind]
        given = {ours: u[theirs] for theirs, ours in renamed.items() if theirs in u}
        if kind in ("AdaGrad", "RmsProp"):  # Keras adds epsilon inside the square root
            given["epsilon"] = u["epsilon"] ** 2
        rate: Any = u.get("learningrate", 1.0)
        if (s := u.get("learningrateschedule")) is not None:
            rate = self._rate(s, keras.optimizers.schedules)
        if u.get("momentumischedule"):
            self.left_out.append("the schedule of the momentum")
        return getattr(keras.optimizers, name)(rate, **given, **fixed)

    def _rate(self, s: Settings, schedules: Any) -> Any:
        """Return the counterpart of a learning rate schedule, or its initial value."""
        kind, first = kind_of(s), s.get("initialvalue", s.get("value", 1e-3))
        if s.get("scheduletype") == "ITERATION" and kind == "ExponentialSchedule":
            return schedules.ExponentialDecay(first, 1, s["gamma"])
        if s.get("scheduletype") == "ITERATION" and kind == "StepSchedule":
            return schedules.ExponentialDecay(first, s["step"], s["decayrate"], staircase=True)
        if kind != "FixedSchedule":
            self.left_out.append(f"the {kind} of the learning rate")
        return first

    def _restore(self, state: Array, chosen: Settings | None, optimizer: Any) -> None:
        """Assign the updater's state, stored slot by slot for each run of equal updaters."""
        variables, at = {variable.path: variable for variable in optimizer.variables}, 0
        for text, group in groupby(self._layers.parameters, lambda each: _text(_updater_of(each))):
            members, u = list(group), json.loads(text)
            if u is not None and u != chosen:
                self.left_out.append(f"the updater {kind_of(u)} of {members[0].layer['name']!r}")
            for slot in _UPDATERS[kind_of(u)][3] if u else ():
                targets: list[tuple[Parameter, Any]] = []
                for each in members:
                    path = f"{optimizer.name}/{each.variable.path.replace('/', '_')}_{slot}"
                    targets.append((each, variables[path] if u == chosen else None))
                at = _assign(state, targets, at)
        if at != state.size:
            raise ValueError(f"an updater's state of {state.size} numbers where {at} are needed")


def _vertex_output(layers: Any, name: str, c: Settings, xs: Sequence[Any]) -> Any:
    """Return the output of a vertex that is not a layer; `layers` is `keras.layers`."""
    kind, x = kind_of(c), xs[0]
    if kind == "MergeVertex":
        return layers.Concatenate(name=name)(xs) if len(xs) > 1 else x
    if kind == "ElementWiseVertex":
        return getattr(layers, _ELEMENT_WISE[c["op"]])(name=name)(xs)
    if kind == "SubsetVertex":
        return x[..., c["from"] : c["to"] + 1]
    if kind in ("ScaleVertex", "ShiftVertex"):
        return layers.Rescaling(c.get("scalefactor", 1.0), c.get("shiftfactor", 0.0))(x)
    if kind == "L2NormalizeVertex" and not c.get("dimension"):
        return layers.UnitNormalization(axis=list(range(1, len(x.shape))))(x)
    if kind == "LastTimeStepVertex":
        return x[:, -1]
    raise Unmapped(f"{name!r}, a {kind}")


def _preprocessed(layers: Any, p: Settings | None, x: Any) -> Any:
    """Apply a preprocessor to `x`; the time steps of sequences remain an axis."""
    kind = kind_of(p)
    if p is None or kind in ("RnnToFeedForwardPreProcessor", "FeedForwardToRnnPreProcessor"):
        return x
    if kind not in ("CnnToFeedForwardPreProcessor", "FeedForwardToCnnPreProcessor"):
        raise Unmapped(f"a {kind}")
    (height, width, channels), is_last = _image_shape(p), p.get("format") == "NHWC"
    if kind.startswith("Cnn"):  # flat images have channels first
        x = x if is_last else layers.Permute((3, 1, 2))(x)
        return layers.Reshape((height * width * channels,))(x)
    if is_last:
        return layers.Reshape((height, width, channels))(x)
    return layers.Permute((2, 3, 1))(layers.Reshape((channels, height, width))(x))


def _image_shape(p: Settings) -> tuple[int, int, int]:
    return p["inputheight"], p["inputwidth"], p["numchannels"]


def _unit(name: str, vertex: Settings, sources: Sequence[str]) -> _Unit:
    if kind_of(vertex) != "LayerVertex":
        return _Unit(name, vertex, sources, is_layer=False)
    return _Unit(name, vertex["layerconf"]["layer"], sources, vertex.get("preprocessor"))


def _assign(flat: Array, targets: Sequence[tuple[Parameter, Any]], at: int = 0) -> int:
    """Assign consecutive parts of `flat`, starting at `at`; return the end of the last one."""
    for each, variable in targets:
        part, at = flat[at : at + each.size], at + each.size
        if len(part) < each.size:
            raise ValueError(f"{at} numbers are needed, and there are {flat.size}")
        if variable is not None:
            variable.assign(each.convert(part).astype(np.float32))
    return at


def _updater_of(each: Parameter) -> Settings | None:
    """Return the settings of a parameter's updater; None if it is not updated."""
    if each.role == "statistic" or not each.layer["trainable"]:
        return None
    own = each.layer.get("biasupdater") if each.role == "bias" else None
    found = own or each.layer.get("iupdater")
    return None if kind_of(found) in ("", "NoOp") else found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _bare(values: list[Any]) -> Any:
    """Return the only value, or all of them."""
    return values[0] if len(values) == 1 else values


def _safe(name: str) -> str:
    """Return a valid Keras name."""
    return re.sub(r"[^\w.-]+", "_", name)
