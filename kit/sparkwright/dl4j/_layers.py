"""Convert Deeplearning4j layers to Keras layers with channels last."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ._files import Array, Unmapped

Settings = Mapping[str, Any]
_NAMED_ACTIVATIONS = {
    **{"Identity": "linear", "ReLU": "relu", "TanH": "tanh", "Sigmoid": "sigmoid", "ELU": "elu"},
    **{"SoftPlus": "softplus", "SoftSign": "softsign", "SELU": "selu", "Swish": "silu"},
    **{"ReLU6": "relu6", "HardTanH": "hard_tanh", "Mish": "mish", "Softmax": "softmax"},
}
# Function of (keras, settings, tensor).
_ACTIVATIONS: dict[str, Callable[[Any, Settings, Any], Any]] = {
    "ReLU": lambda k, fn, y: k.layers.ReLU(
        fn.get("max"), fn.get("negativeslope") or 0.0, fn.get("threshold") or 0.0
    )(y),
    "ELU": lambda k, fn, y: k.layers.ELU(fn["alpha"])(y),
    "LReLU": lambda k, fn, y: k.layers.LeakyReLU(fn["alpha"])(y),
    "ThresholdedReLU": lambda k, fn, y: k.layers.ReLU(threshold=fn["theta"])(y),
    "RectifiedTanh": lambda k, fn, y: k.ops.relu(k.ops.tanh(y)),
    # Keras' hard_sigmoid has another slope, and its gelu uses other approximations.
    # Deeplearning4j's "precise" GELU also cubes the factor 0.044715.
    "HardSigmoid": lambda k, fn, y: k.ops.clip(y * 0.2 + 0.5, 0.0, 1.0),
    "GELU": lambda k, fn, y: (
        y
        * k.ops.sigmoid(
            (y + (y * 0.044715) ** 3) * (8 / np.pi) ** 0.5 if fn.get("precise") else y * 1.702
        )
    ),
}
_MERGES = {"ADD": "sum", "MUL": "mul", "AVERAGE": "ave", "CONCAT": "concat"}
_DROPOUTS = ("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise")
_RECURRENT = ("LSTM", "GravesLSTM", "SimpleRnn", "GravesBidirectionalLSTM")
_LOWEST = float(np.finfo(np.float32).min)


class Parameter(NamedTuple):
    """Part of a network's parameters."""

    variable: Any  # of Keras
    size: int
    convert: Callable[[Array], Array]  # flat parameters -> value of the variable
    layer: Settings  # settings of the layer
    # A statistic has no updater; a bias may have its own.
    role: Literal["weight", "bias", "statistic"]


def kind_of(value: Settings | None) -> str:
    """Return the simple class name in settings; "" for None."""
    return "" if value is None else str(value["@class"]).rpartition(".")[2]


def lowered(value: Any) -> Any:
    """Return settings with lower-case keys, because their case differs between versions."""
    if isinstance(value, Mapping):
        return {str(name).lower(): lowered(inner) for name, inner in value.items()}
    return [lowered(inner) for inner in value] if isinstance(value, list) else value


class Layers:
    """Creates Keras layers from settings, and records the variable of each parameter."""

    def __init__(self, size: int) -> None:
        import keras

        self._keras: Any = keras
        self._size = size  # parameters in the file; larger layers are not built
        self.parameters: list[Parameter] = []  # in file order
        self.left_out: list[str] = []  # training settings without a counterpart
        self._makers: dict[str, Callable[[Settings, Any], Any]] = {
            **dict.fromkeys(("DenseLayer", "OutputLayer", "RnnOutputLayer"), self._dense),
            **dict.fromkeys(("ActivationLayer", "LossLayer", "RnnLossLayer"), self._activated),
            **dict.fromkeys(("EmbeddingLayer", "EmbeddingSequenceLayer"), self._embedding),
            **dict.fromkeys(("ConvolutionLayer", "Convolution1DLayer"), self._convolution),
            **dict.fromkeys(("SubsamplingLayer", "Subsampling1DLayer"), self._subsampling),
            **dict.fromkeys((*_RECURRENT, "Bidirectional"), self._recurrent),
            "DropoutLayer": lambda c, x: x,
            "ZeroPaddingLayer": self._zero_padding,
            "GlobalPoolingLayer": self._global_pooling,
            "BatchNormalization": self._batch_normalization,
            "LastTimeStep": self._recurrent,
        }

    def layer(self, name: str, c: Settings, x: Any) -> Any:
        """Apply a layer with the settings `c` to the tensor `x`."""
        is_frozen = False
        while kind_of(c).startswith("Frozen"):
            is_frozen, c = True, c.get("layer") or c["underlying"]
        kind, c = kind_of(c), {**c, "name": name, "trainable": not is_frozen}
        make = self._makers.get(kind)
        if make is None or c.get("haslayernorm"):
            raise Unmapped(f"{name!r}, a {kind}{' with layer norm' if make else ''}")
        inner: Any = c
        while deeper := inner.get("underlying") or inner.get("fwd"):
            inner = deeper
        for key in ("constraints", "weightnoise", "gradientnormalization"):
            if inner.get(key) not in (None, "None", []):
                self.left_out.append(f"{key} of {name!r}")
        if make in (self._dense, self._embedding, self._convolution, self._recurrent):
            count = inner["nin"] * inner["nout"] * max(inner.get("kernelsize", (1,)))
            if not 0 < count <= self._size:
                raise ValueError(f"{name!r} needs {count} of {self._size} parameters")
        # Frozen layers run in inference mode, without dropout.
        return make(c, x if is_frozen else self._dropped(inner.get("idropout"), x))

    def _keep(self, c: Settings, variable: Any, convert: Any = None, role: Any = "weight") -> None:
        """Record the next parameters, in Fortran order unless `convert` is given."""
        shape = tuple(variable.shape)
        convert = convert or (lambda flat: flat.reshape(shape, order="F"))
        self.parameters.append(Parameter(variable, int(np.prod(shape)), convert, c, role))

    def _common(self, c: Settings) -> dict[str, Any]:
        """Return the arguments shared by layers with weights."""
        return {
            "name": c["name"],
            "trainable": c["trainable"],
            "use_bias": c.get("hasbias", True),
            "kernel_regularizer": self._regularizer(c, "regularization"),
            "bias_regularizer": self._regularizer(c, "regularizationbias"),
        }

    def _regularizer(self, c: Settings, key: str) -> Any:
        amounts: dict[str, float] = {}
        for each in c.get(key) or ():
            name = kind_of(each).removesuffix("Regularization").lower()
            amount = each[name].get("value") if name in ("l1", "l2") else None
            if amount is None:
                self.left_out.append(f"{kind_of(each)} of {c['name']!r}")
            else:  # Deeplearning4j's L2 has a factor of 1/2
                amounts[name] = amount / 2 if name == "l2" else amount
        return self._keras.regularizers.L1L2(**amounts) if amounts else None

    def _dropped(self, d: Settings | None, x: Any) -> Any:
        """Apply dropout to `x`, the input of a layer."""
        if d is None or (kind := kind_of(d)) not in _DROPOUTS:
            self.left_out += [] if d is None else [f"a {kind_of(d)}"]
            return x
        if any(value for key, value in d.items() if key.endswith("schedule")):
            self.left_out.append(f"the schedule of a {kind}")
        # `p` is the probability of keeping a unit.
        amount = 1 - d["p"] if "p" in d else d.get("rate", d.get("stddev"))
        return getattr(self._keras.layers, kind)(amount)(x)

    def _activated(self, c: Settings, y: Any, *, named_too: bool = True) -> Any:
        """Apply a layer's activation; `named_too=False` if the layer applies named ones."""
        name, fn = _named(c), c.get("activationfn")
        if name == "softmax" and len(y.shape) == 4:
            raise Unmapped(f"the softmax of images of {c['name']!r}")
        if name is not None:
            has_work = named_too and name != "linear"
            return self._keras.layers.Activation(name)(y) if has_work else y
        kind = kind_of(fn).removeprefix("Activation")
        if fn is None or kind not in _ACTIVATIONS:
            raise Unmapped(f"the activation {kind} of {c['name']!r}")
        return _ACTIVATIONS[kind](self._keras, fn, y)

    def _dense(self, c: Settings, x: Any) -> Any:
        layer = self._keras.layers.Dense(c["nout"], activation=_named(c), **self._common(c))
        y = layer(x)
        self._keep(c, layer.kernel)
        if layer.use_bias:
            self._keep(c, layer.bias, role="bias")
        return self._activated(c, y, named_too=False)

    def _embedding(self, c: Settings, x: Any) -> Any:
        if c.get("hasbias"):
            raise Unmapped(f"{c['name']!r}, a {kind_of(c)} with a bias")
        layers, settings = self._keras.layers, {"name": c["name"], "trainable": c["trainable"]}
        settings["embeddings_regularizer"] = self._regularizer(c, "regularization")
        layer = layers.Embedding(c["nin"], c["nout"], **settings)
        y = layer(x)
        self._keep(c, layer.embeddings)
        is_one = kind_of(c) == "EmbeddingLayer"
        return self._activated(c, layers.Reshape((c["nout"],))(y) if is_one else y)

    def _convolution(self, c: Settings, x: Any) -> Any:
        axes, layers = 1 if "1D" in kind_of(c) else 2, self._keras.layers
        padding = {"Same": "same", "Causal": "causal"}.get(c["convolutionmode"], "valid")
        if padding == "valid":
            x = self._padded(x, [(n, n) for n in c["padding"][:axes]])
        layer = (layers.Conv1D if axes == 1 else layers.Conv2D)(
            c["nout"],
            c["kernelsize"][:axes],
            strides=c["stride"][:axes],
            dilation_rate=c["dilation"][:axes],
            padding=padding,
            activation=_named(c),
            **self._common(c),
        )
        y = layer(x)
        if layer.use_bias:
            self._keep(c, layer.bias, role="bias")
        shape = tuple(layer.kernel.shape)
        if axes == 1:  # Keras' order since 1.0.0-M1; the file does not record it
            if c["kernelsize"][1:] == [1]:
                self.left_out.append(f"the order that {c['name']!r} has in 1.0.0-beta7 and before")
            self._keep(c, layer.kernel, lambda flat: flat.reshape(shape))
        else:
            stored = (shape[3], shape[2], shape[0], shape[1])
            self._keep(c, layer.kernel, lambda flat: flat.reshape(stored).transpose(2, 3, 1, 0))
        return self._activated(c, y, named_too=False)

    def _subsampling(self, c: Settings, x: Any) -> Any:
        kind, axes = c["poolingtype"], 1 if "1D" in kind_of(c) else 2
        padding = "same" if c["convolutionmode"] == "Same" else "valid"
        amounts = [(n, n) for n in c["padding"][:axes]] if padding == "valid" else []
        make = {"MAX": "MaxPooling", "AVG": "AveragePooling"}.get(kind)
        is_padded_mean = kind == "AVG" and any(map(any, amounts))
        if make is None or is_padded_mean or set(c["dilation"][:axes]) != {1}:
            raise Unmapped(f"{c['name']!r}, a {kind_of(c)} with {kind}, padding or dilation")
        # Keras pads with zeros, which could be the maximum of a window.
        x = self._padded(x, amounts, _LOWEST)
        layer = getattr(self._keras.layers, f"{make}{axes}D")
        sizes = tuple(c["kernelsize"][:axes]), tuple(c["stride"][:axes])
        return layer(*sizes, padding=padding, name=c["name"])(x)

    def _zero_padding(self, c: Settings, x: Any) -> Any:
        top, bottom, left, right = c["padding"]
        return self._padded(x, [(top, bottom), (left, right)])

    def _padded(self, x: Any, amounts: Sequence[tuple[int, int]], value: float = 0.0) -> Any:
        """Pad the inner axes of `x` by `amounts` (before, after)."""
        if not any(map(any, amounts)):
            return x
        return self._keras.ops.pad(x, [(0, 0), *amounts, (0, 0)], constant_values=value)

    def _global_pooling(self, c: Settings, x: Any) -> Any:
        ops, kind, axes = self._keras.ops, c["poolingtype"], tuple(range(1, len(x.shape) - 1))
        if not c.get("collapsedimensions", True):
            raise Unmapped(f"{c['name']!r}, a pooling that keeps its axes")
        if kind != "PNORM":
            return {"MAX": ops.max, "AVG": ops.mean, "SUM": ops.sum}[kind](x, axis=axes)
        power = float(c["pnorm"])
        return ops.sum(ops.abs(x) ** power, axis=axes) ** (1 / power)

    def _batch_normalization(self, c: Settings, x: Any) -> Any:
        constant, is_locked = self._keras.initializers.Constant, c.get("lockgammabeta")
        layer = self._keras.layers.BatchNormalization(
            momentum=c["decay"],
            epsilon=c["eps"],
            beta_initializer=constant(c["beta"]),
            gamma_initializer=constant(c["gamma"]),
            name=c["name"],
            trainable=c["trainable"],
        )
        y = layer(x)
        if is_locked:
            layer.gamma.trainable = layer.beta.trainable = False
        for variable in () if is_locked else (layer.gamma, layer.beta):
            self._keep(c, variable)
        self._keep(c, layer.moving_mean, role="statistic")
        # The file contains the variance, or log10 of the standard deviation.
        variance = (lambda flat: 100.0**flat) if c.get("uselogstd") else None
        self._keep(c, layer.moving_variance, variance, role="statistic")
        return y

    def _recurrent(self, c: Settings, x: Any) -> Any:
        all_steps = kind_of(c) != "LastTimeStep"
        own = {"name": c["name"], "trainable": c["trainable"]}
        c = c if all_steps else {**c["underlying"], **own}
        if "Bidirectional" not in kind_of(c):
            layer = self._recurrent_layer(c, return_sequences=all_steps)
            y = layer(x)
            self._keep_cell(c, layer.cell)
            return y
        # The older class has one configuration for both directions.
        ways = [{**(c.get(w) or c), **own, "name": f"{c['name']}_{w}"} for w in ("fwd", "bwd")]
        forward = self._recurrent_layer(ways[0], return_sequences=True)
        backward = self._recurrent_layer(ways[1], return_sequences=True, go_backwards=True)
        mode = _MERGES[c.get("mode", "ADD")]
        both = self._keras.layers.Bidirectional(
            forward, backward_layer=backward, merge_mode=mode, name=c["name"]
        )
        y = both(x)
        for way, layer in zip(ways, (both.forward_layer, both.backward_layer), strict=True):
            self._keep_cell(way, layer.cell)
        # At the last time step, the backward layer has processed only one step.
        return y if all_steps else y[:, -1]

    def _recurrent_layer(self, c: Settings, **options: Any) -> Any:
        layers, kind, activation = self._keras.layers, kind_of(c), _named(c)
        gates = (
            {} if kind == "SimpleRnn" else {"recurrent_activation": _named(c, "gateactivationfn")}
        )
        if kind not in _RECURRENT or None in (activation, *gates.values()):
            raise Unmapped(f"{c['name']!r}, a {kind} with its activations")
        settings: dict[str, Any] = {**self._common(c), **gates, "activation": activation}
        settings["recurrent_regularizer"] = settings["kernel_regularizer"]
        if kind in ("LSTM", "SimpleRnn"):
            make = layers.LSTM if kind == "LSTM" else layers.SimpleRNN
            return make(c["nout"], **settings, **options)
        from sparkwright.networks.peephole_lstm import PeepholeLSTMCell

        name = settings.pop("name")
        return layers.RNN(PeepholeLSTMCell(c["nout"], **settings), name=name, **options)

    def _keep_cell(self, c: Settings, cell: Any) -> None:
        order: Any = _in_order_of_gates if kind_of(c) != "SimpleRnn" else lambda variable: None
        for variable in (cell.kernel, cell.recurrent_kernel):
            self._keep(c, variable, order(variable))
        if hasattr(cell, "peepholes"):
            self._keep(c, cell.peepholes)
        self._keep(c, cell.bias, order(cell.bias), "bias")


def _named(c: Settings, key: str = "activationfn") -> str | None:
    """Return Keras' name of an activation; None if the name does not suffice."""
    fn = c.get(key)
    if fn is None:
        return "linear"
    changed = any(fn.get(name) for name in ("max", "negativeslope", "threshold"))
    if changed or fn.get("alpha", 1.0) != 1.0:
        return None
    return _NAMED_ACTIVATIONS.get(kind_of(fn).removeprefix("Activation"))


def _in_order_of_gates(variable: Any) -> Callable[[Array], Array]:
    """Reorder the gates from cell, forget, output, input to Keras' input, forget, cell, output."""
    shape = tuple(variable.shape)

    def convert(flat: Array) -> Array:
        gates = flat.reshape(4, shape[-1] // 4, -1)[[3, 1, 0, 2]]
        return gates.transpose(2, 0, 1).reshape(shape)

    return convert
