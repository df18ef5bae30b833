"""Layers, vertices and preprocessors of Deeplearning4j as Keras layers, channels last."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ._files import Array, Unmapped

Settings = Mapping[str, Any]
_ACTIVATIONS = {
    **{"Identity": "linear", "ReLU": "relu", "TanH": "tanh", "Sigmoid": "sigmoid", "ELU": "elu"},
    **{"SoftPlus": "softplus", "SoftSign": "softsign", "SELU": "selu", "Swish": "silu"},
    **{"ReLU6": "relu6", "HardTanH": "hard_tanh", "Mish": "mish", "Softmax": "softmax"},
}
_ELEMENT_WISE = {"Product": "Multiply", "Max": "Maximum", "Min": "Minimum"}
_MERGES = {"ADD": "sum", "MUL": "mul", "AVERAGE": "ave", "CONCAT": "concat"}
# Keras pads with zeros only; the maximum of a window must not be one of them.
_LOWEST = float(np.finfo(np.float32).min)


class Parameter(NamedTuple):
    """Some of a network's parameters.

    Attributes:
        variable: of Keras, where they go.
        size: how many they are.
        convert: flat parameters -> the value of the variable.
        layer: the settings of the layer.
        role: a "statistic" has no updater; that of a "folded" bias cannot be kept.
    """

    variable: Any
    size: int
    convert: Callable[[Array], Array]
    layer: Settings
    role: Literal["weight", "bias", "statistic", "folded"]


def kind_of(value: Settings) -> str:
    """Return the simple class name of settings."""
    return str(value["@class"]).rpartition(".")[2]


def lowered(value: Any) -> Any:
    """Return settings with keys in lower case, which differs between versions."""
    if isinstance(value, Mapping):
        return {str(name).lower(): lowered(inner) for name, inner in value.items()}
    return [lowered(inner) for inner in value] if isinstance(value, list) else value


class Layers:
    """Makes Keras layers from settings, and notes which parameters go where.

    Attributes:
        parameters: in the order of the file.
        left_out: settings of training that have no counterpart.
    """

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.left_out: list[str] = []

    def layer(self, name: str, c: Settings, x: Any) -> Any:
        """Return the output of a layer with the settings `c` for the tensor `x`."""
        is_frozen = False
        while (kind := kind_of(c)).startswith("Frozen"):
            is_frozen, c = True, c.get("layer") or c["underlying"]
        c = {**c, "name": name, "trainable": not is_frozen}
        make: Any = getattr(self, _METHODS.get(kind, ""), None)
        if make is None or c.get("haslayernorm"):
            raise Unmapped(f"{name!r}, a {kind}{' with layer norm' if make else ''}")
        unused = [key for key in ("constraints", "weightnoise") if c.get(key)]
        self.left_out += [f"{key} of {name!r}" for key in unused]
        # Frozen layers work as they do without training.
        return make(c, x if is_frozen else self._dropped(c.get("idropout"), x))

    def vertex(self, name: str, c: Settings, xs: Sequence[Any]) -> Any:
        """Return the output of a vertex that is no layer."""
        import keras

        layers, kind, x = keras.layers, kind_of(c), xs[0]
        if kind == "MergeVertex":
            return layers.Concatenate(name=name)(xs) if len(xs) > 1 else x
        if kind == "ElementWiseVertex":
            return getattr(layers, _ELEMENT_WISE.get(c["op"], c["op"]))(name=name)(xs)
        if kind == "SubsetVertex":
            return x[..., c["from"] : c["to"] + 1]
        if kind in ("ScaleVertex", "ShiftVertex"):
            return layers.Rescaling(c.get("scalefactor", 1.0), c.get("shiftfactor", 0.0))(x)
        if kind == "L2NormalizeVertex" and not c.get("dimension"):
            return layers.UnitNormalization(axis=list(range(1, len(x.shape))), name=name)(x)
        if kind == "LastTimeStepVertex":
            return x[:, -1]
        if kind == "PreprocessorVertex":
            return self.preprocessed(c["preprocessor"], x)
        raise Unmapped(f"{name!r}, a {kind}")

    def preprocessed(self, p: Settings | None, x: Any) -> Any:
        """Return `x` after a preprocessor; steps of sequences stay an axis."""
        from keras.layers import Permute, Reshape

        kind = "" if p is None else kind_of(p)
        if p is None or kind in ("RnnToFeedForwardPreProcessor", "FeedForwardToRnnPreProcessor"):
            return x
        if kind not in ("CnnToFeedForwardPreProcessor", "FeedForwardToCnnPreProcessor"):
            raise Unmapped(f"a {kind}")
        height, width, channels = image_shape(p)
        is_last = p.get("format") == "NHWC"
        if kind.startswith("Cnn"):  # Deeplearning4j's flat images have channels first
            x = x if is_last else Permute((3, 1, 2))(x)
            return Reshape((height * width * channels,))(x)
        if is_last:
            return Reshape((height, width, channels))(x)
        return Permute((2, 3, 1))(Reshape((channels, height, width))(x))

    def _keep(
        self, c: Settings, variable: Any, convert: Any = None, role: Any = "weight", extra: int = 0
    ) -> None:
        """Note the next parameters: `variable` in Fortran's order, or what `convert` makes of it."""
        shape = tuple(variable.shape)
        convert = convert or (lambda flat: flat.reshape(shape, order="F"))
        size = int(np.prod(shape)) + extra
        self.parameters.append(Parameter(variable, size, convert, c, role))

    def _common(self, c: Settings) -> dict[str, Any]:
        """Return the arguments of layers with weights."""
        keys = {"kernel_regularizer": "regularization", "bias_regularizer": "regularizationbias"}
        found = {name: self._regularizer(c, key) for name, key in keys.items()}
        return {
            "name": c["name"],
            "trainable": c["trainable"],
            "use_bias": c.get("hasbias", True),
            **found,
        }

    def _regularizer(self, c: Settings, key: str) -> Any:
        import keras

        amounts: dict[str, float] = {}
        for each in c.get(key) or ():
            name = kind_of(each).removesuffix("Regularization").lower()
            amount = each[name].get("value") if name in ("l1", "l2") else None
            if amount is None:
                self.left_out.append(f"{kind_of(each)} of {c['name']!r}")
            else:  # Deeplearning4j halves the squares
                amounts[name] = amount / 2 if name == "l2" else amount
        return keras.regularizers.L1L2(**amounts) if amounts else None

    def _dropped(self, d: Settings | None, x: Any) -> Any:
        """Return `x` after the dropout that Deeplearning4j applies to a layer's input."""
        import keras

        kind = "" if d is None else kind_of(d)
        if d is None or kind not in ("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise"):
            self.left_out += [f"dropout of the kind {kind}"] if kind else []
            return x
        if any(value for key, value in d.items() if key.endswith("schedule")):
            self.left_out.append(f"the schedule of a {kind}")
        # `p` is the probability to keep.
        amount = 1 - d["p"] if "p" in d else d.get("rate", d.get("stddev"))
        return getattr(keras.layers, kind)(amount)(x)

    def _identity(self, c: Settings, x: Any) -> Any:
        return x

    def _activation(self, c: Settings, x: Any) -> Any:
        return _activated(c, x, plain_too=True)

    def _reshaped(self, c: Settings, x: Any) -> Any:
        import keras

        if (kind := kind_of(c)) == "Upsampling2D":
            return keras.layers.UpSampling2D(tuple(c["size"]), name=c["name"])(x)
        top, bottom, left, right = c["padding" if kind == "ZeroPaddingLayer" else "cropping"]
        make = keras.layers.ZeroPadding2D if kind == "ZeroPaddingLayer" else keras.layers.Cropping2D
        return make(((top, bottom), (left, right)), name=c["name"])(x)

    def _dense(self, c: Settings, x: Any) -> Any:
        import keras

        layer = keras.layers.Dense(c["nout"], activation=_plain(c), **self._common(c))
        y = layer(x)
        self._keep(c, layer.kernel)
        self._keep_bias(c, layer)
        return _activated(c, y)

    def _keep_bias(self, c: Settings, layer: Any) -> None:
        if layer.use_bias:
            self._keep(c, layer.bias, role="bias")

    def _embedding(self, c: Settings, x: Any) -> Any:
        import keras

        regularizer, count = self._common(c)["kernel_regularizer"], c["nout"]
        layer = keras.layers.Embedding(
            c["nin"], count, embeddings_regularizer=regularizer, name=c["name"]
        )
        y = layer(x)
        if c.get("hasbias"):
            self.left_out.append(f"the bias of {c['name']!r}, which is part of each row now")

            def with_bias(flat: Array) -> Array:
                return flat[:-count].reshape(-1, count, order="F") + flat[-count:]

            self._keep(c, layer.embeddings, with_bias, "folded", extra=count)
        else:
            self._keep(c, layer.embeddings)
        is_one = kind_of(c) == "EmbeddingLayer"
        return _activated(c, keras.layers.Reshape((count,))(y) if is_one else y, plain_too=True)

    def _convolution(self, c: Settings, x: Any) -> Any:
        import keras

        axes = 1 if "1D" in kind_of(c) else 2
        padding = {"Same": "same", "Causal": "causal"}.get(c["convolutionmode"], "valid")
        if padding == "valid" and any(c["padding"][:axes]):
            amounts = tuple((n, n) for n in c["padding"][:axes])
            pad: Any = getattr(keras.layers, f"ZeroPadding{axes}D")
            x = pad(amounts if axes == 2 else amounts[0])(x)
        layer: Any = getattr(keras.layers, f"Conv{axes}D")(
            c["nout"],
            tuple(c["kernelsize"][:axes]),
            strides=tuple(c["stride"][:axes]),
            dilation_rate=tuple(c["dilation"][:axes]),
            padding=padding,
            activation=_plain(c),
            **self._common(c),
        )
        y = layer(x)
        *sizes, channels, filters = layer.kernel.shape
        order = (*range(2, 2 + axes), 1, 0)
        self._keep_bias(c, layer)
        self._keep(
            c, layer.kernel, lambda flat: flat.reshape(filters, channels, *sizes).transpose(order)
        )
        return _activated(c, y)

    def _subsampling(self, c: Settings, x: Any) -> Any:
        import keras

        kind, axes, name = c["poolingtype"], 1 if "1D" in kind_of(c) else 2, c["name"]
        padding = "same" if c["convolutionmode"] == "Same" else "valid"
        amounts = c["padding"][:axes] if padding == "valid" else []
        is_partial = kind == "AVG" and any(amounts) and not c.get("avgpoolincludepadindivisor")
        if kind not in ("MAX", "AVG") or is_partial or set(c["dilation"][:axes]) != {1}:
            raise Unmapped(f"{name!r}, a {kind_of(c)} with {kind}, its padding and dilation")
        if any(amounts):
            widths = [[0, 0], *([n, n] for n in amounts), [0, 0]]
            x = keras.ops.pad(x, widths, constant_values=_LOWEST if kind == "MAX" else 0.0)
        make: Any = getattr(keras.layers, f"{'Max' if kind == 'MAX' else 'Average'}Pooling{axes}D")
        sizes = tuple(c["kernelsize"][:axes]), tuple(c["stride"][:axes])
        return make(*sizes, padding=padding, name=name)(x)

    def _global_pooling(self, c: Settings, x: Any) -> Any:
        import keras

        kind, axes = c["poolingtype"], tuple(range(1, len(x.shape) - 1))
        if kind in ("MAX", "AVG"):
            name = f"Global{'Max' if kind == 'MAX' else 'Average'}Pooling{len(axes)}D"
            return getattr(keras.layers, name)(name=c["name"])(x)
        if kind == "SUM":
            return keras.ops.sum(x, axis=axes)
        power = float(c["pnorm"])
        return keras.ops.sum(keras.ops.abs(x) ** power, axis=axes) ** (1 / power)

    def _batch_normalization(self, c: Settings, x: Any) -> Any:
        import keras

        constant, is_locked = keras.initializers.Constant, c.get("lockgammabeta")
        layer: Any = keras.layers.BatchNormalization(
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
        # Or the logarithm, to base 10, of the deviation.
        variance = (lambda flat: 100.0**flat) if c.get("uselogstd") else None
        self._keep(c, layer.moving_variance, variance, role="statistic")
        return y

    def _recurrent(self, c: Settings, x: Any) -> Any:
        return self._recurring(c, x, all_steps=True)

    def _last_step(self, c: Settings, x: Any) -> Any:
        return self._recurring({**c["underlying"], **_own(c)}, x, all_steps=False)

    def _recurring(self, c: Settings, x: Any, *, all_steps: bool) -> Any:
        import keras

        name, kind = c["name"], kind_of(c)
        if "Bidirectional" not in kind:
            layer = self._recurrent_layer(c, return_sequences=all_steps)
            y = layer(x)
            self._keep_cell(c, layer.cell)
            return y
        # The older kind has one configuration for both directions.
        ways = [
            {**(c.get(way) or c), **_own(c), "name": f"{name}_{way}"} for way in ("fwd", "bwd")
        ]
        forward, backward = (
            self._recurrent_layer(way, return_sequences=True, go_backwards=way is ways[1])
            for way in ways
        )
        mode = _MERGES[c.get("mode", "ADD")]
        both = keras.layers.Bidirectional(
            forward, backward_layer=backward, merge_mode=mode, name=name
        )
        y = both(x)
        for way, layer in zip(ways, (both.forward_layer, both.backward_layer), strict=True):
            self._keep_cell(way, layer.cell)
        # Of the sequence: the backward layer has seen one step there.
        return y if all_steps else y[:, -1]

    def _recurrent_layer(self, c: Settings, **options: Any) -> Any:
        import keras

        kind, settings = kind_of(c), {**self._common(c), "activation": _plain(c)}
        settings["recurrent_regularizer"] = settings["kernel_regularizer"]
        if kind != "SimpleRnn":
            settings["recurrent_activation"] = _plain(c, "gateactivationfn")
        if None in (settings["activation"], settings.get("recurrent_activation", "")):
            raise Unmapped(f"the activation of {c['name']!r}, a {kind}")
        if kind in ("LSTM", "SimpleRnn"):
            made: Any = {"LSTM": keras.layers.LSTM, "SimpleRnn": keras.layers.SimpleRNN}[kind]
            return made(c["nout"], **settings, **options)
        if kind not in ("GravesLSTM", "GravesBidirectionalLSTM"):
            raise Unmapped(f"{c['name']!r}, a {kind}")
        from sparkwright.networks.peephole_lstm import PeepholeLSTMCell

        name = settings.pop("name")
        return keras.layers.RNN(PeepholeLSTMCell(c["nout"], **settings), name=name, **options)

    def _keep_cell(self, c: Settings, cell: Any) -> None:
        convert: Any = None if kind_of(c) == "SimpleRnn" else _in_order_of_gates
        for variable, role in ((cell.kernel, "weight"), (cell.recurrent_kernel, "weight")):
            self._keep(c, variable, convert and convert(variable), role)
        if hasattr(cell, "peepholes"):
            self._keep(c, cell.peepholes)
        self._keep(c, cell.bias, convert and convert(cell.bias), "bias")


# Class name -> method.
_METHODS = {
    **dict.fromkeys(("DenseLayer", "OutputLayer", "RnnOutputLayer"), "_dense"),
    **dict.fromkeys(("ActivationLayer", "LossLayer", "RnnLossLayer"), "_activation"),
    "DropoutLayer": "_identity",
    **dict.fromkeys(("EmbeddingLayer", "EmbeddingSequenceLayer"), "_embedding"),
    **dict.fromkeys(("ConvolutionLayer", "Convolution2D"), "_convolution"),
    **dict.fromkeys(("Convolution1DLayer", "Convolution1D"), "_convolution"),
    **dict.fromkeys(("SubsamplingLayer", "Subsampling1DLayer"), "_subsampling"),
    **dict.fromkeys(("ZeroPaddingLayer", "Cropping2D", "Upsampling2D"), "_reshaped"),
    "GlobalPoolingLayer": "_global_pooling",
    "BatchNormalization": "_batch_normalization",
    **dict.fromkeys(("LSTM", "GravesLSTM", "SimpleRnn"), "_recurrent"),
    **dict.fromkeys(("Bidirectional", "GravesBidirectionalLSTM"), "_recurrent"),
    "LastTimeStep": "_last_step",
}


def _own(c: Settings) -> Settings:
    """Return what a layer inside a wrapper takes from the wrapper."""
    return {"name": c["name"], "trainable": c["trainable"]}


def image_shape(p: Settings) -> tuple[int, int, int]:
    """Return height, width and channels in the settings of a preprocessor."""
    return p["inputheight"], p["inputwidth"], p["numchannels"]


def _in_order_of_gates(variable: Any) -> Callable[[Array], Array]:
    """Put cell, forget, output and input gate into Keras' order: input, forget, cell, output."""
    shape = tuple(variable.shape)

    def convert(flat: Array) -> Array:
        blocks = flat.reshape(4, shape[-1] // 4, -1)[[3, 1, 0, 2]]
        return blocks.transpose(2, 0, 1).reshape(shape)

    return convert


def _plain(c: Settings, key: str = "activationfn") -> str | None:
    """Return Keras' name of an activation; None if it takes more than a name."""
    fn = c.get(key) or {"@class": ".ActivationIdentity"}
    changed = {name: fn.get(name) for name in ("max", "negativeslope", "threshold")}
    if any(changed.values()) or fn.get("alpha", 1.0) != 1.0:
        return None
    return _ACTIVATIONS.get(kind_of(fn).removeprefix("Activation"))


def _activated(c: Settings, y: Any, *, plain_too: bool = False) -> Any:
    """Apply an activation; one that is only a name if `plain_too`."""
    import keras

    layers, plain = keras.layers, _plain(c)
    if plain == "softmax" and len(y.shape) == 4:
        raise Unmapped(f"the softmax of the images of {c['name']!r}")
    if plain is not None:
        return layers.Activation(plain, name=c["name"])(y) if plain_too else y
    fn = c["activationfn"]
    kind, get = kind_of(fn).removeprefix("Activation"), fn.get
    if kind == "ReLU":
        slope, start = get("negativeslope") or 0.0, get("threshold") or 0.0
        return layers.ReLU(max_value=get("max"), negative_slope=slope, threshold=start)(y)
    if kind == "ELU":
        return layers.ELU(get("alpha"))(y)
    if kind == "LReLU":
        return layers.LeakyReLU(negative_slope=get("alpha"))(y)
    if kind == "ThresholdedReLU":
        return layers.ReLU(threshold=get("theta"))(y)
    if kind == "HardSigmoid":  # Keras' has another slope
        return layers.ReLU(max_value=1.0)(layers.Rescaling(0.2, 0.5)(y))
    if kind == "RectifiedTanh":
        return layers.ReLU()(layers.Activation("tanh")(y))
    if kind == "GELU" and get("precise"):
        return keras.ops.gelu(y, approximate=True)
    if kind == "GELU":
        return layers.Multiply()([y, layers.Activation("sigmoid")(layers.Rescaling(1.702)(y))])
    raise Unmapped(f"the activation {kind} of {c['name']!r}")
