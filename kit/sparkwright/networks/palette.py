"""Common Keras layers by group, and help texts for options and optimizers. Imports no Keras.

The installed Keras determines which layers and options exist; options missing here have no help.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Group = Literal[
    "core",
    "activation",
    "convolution",
    "pooling",
    "recurrent",
    "embedding",
    "normalization",
    "reshaping",
    "merging",
    "other",
]

# Common layers by group, in the builder's order; the remaining layers of Keras follow.
PALETTE: Mapping[Group, tuple[str, ...]] = MappingProxyType(
    {
        "core": (
            *("Input", "Dense", "TimeDistributed", "Masking", "Dropout", "GaussianNoise"),
            *("GaussianDropout", "SpatialDropout1D", "SpatialDropout2D"),
        ),
        "activation": ("Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax"),
        "convolution": (
            *("Conv1D", "Conv2D", "Conv3D", "SeparableConv1D", "SeparableConv2D"),
            *("DepthwiseConv2D", "Conv1DTranspose", "Conv2DTranspose"),
        ),
        "pooling": tuple(
            f"{kind}Pooling{n}D"
            for kind in ("Max", "Average", "GlobalMax", "GlobalAverage")
            for n in (1, 2, 3)
        ),
        "recurrent": (
            *("LSTM", "GRU", "SimpleRNN", "Bidirectional", "Attention", "MultiHeadAttention"),
        ),
        "embedding": ("Embedding",),
        "normalization": (
            *("BatchNormalization", "LayerNormalization", "GroupNormalization"),
            *("UnitNormalization", "Rescaling"),
        ),
        "reshaping": (
            *("Flatten", "Reshape", "Permute", "RepeatVector", "ZeroPadding1D", "ZeroPadding2D"),
            *("Cropping1D", "Cropping2D", "UpSampling1D", "UpSampling2D"),
        ),
        "merging": (
            *("Add", "Multiply", "Average", "Maximum", "Minimum", "Subtract", "Concatenate"),
            "Dot",
        ),
    }
)


class Help(NamedTuple):
    """Label and help text of an option.

    Attributes:
        advice: what to choose, in one sentence.
        label: empty: derived from the option's name.
        none_text: text for the value None.
        kind: kind of the option, if its default does not determine it.
    """

    advice: str = ""
    label: str = ""
    none_text: str = "automatic"
    kind: str = ""


# Keys are "option", or "class.option" for one class.
HELP: Mapping[str, Help] = MappingProxyType(
    {
        "Input.shape": Help(
            "Tables: columns. Images: height, width, channels. Sequences: steps, features."
        ),
        "Input.dtype": Help("int32 for the indices of an Embedding."),
        "units": Help("Number of outputs; in the last layer, one for each class or target."),
        "LSTM.units": Help("Size of the hidden state."),
        "GRU.units": Help("Size of the hidden state."),
        "SimpleRNN.units": Help("Size of the hidden state."),
        "activation": Help("relu in hidden layers; softmax, sigmoid or linear in the last layer."),
        "filters": Help("Number of output channels; often doubled after each pooling layer."),
        "kernel_size": Help("3 is common; 5 or 7 in the first layer."),
        "strides": Help(
            "2 halves the size of the output.", none_text="same as the pool size", kind="ints"
        ),
        "pool_size": Help("2 halves the size of the output."),
        "padding": Help("valid: no padding; same: zero padding at the borders."),
        "dilation_rate": Help("Values above 1 enlarge the receptive field."),
        "depth_multiplier": Help("Number of output channels for each input channel."),
        "keepdims": Help("Keep the pooled axes with length 1.", "Keep dimensions"),
        "use_bias": Help("Not needed before a BatchNormalization.", "Bias"),
        "kernel_initializer": Help("he_normal suits relu; glorot_uniform suits tanh and softmax."),
        "l1": Help("L1 regularization factor: multiplies the sum of absolute weights."),
        "l2": Help("L2 regularization factor: multiplies the sum of squares; 1e-4 is common."),
        "max_norm": Help("Maximum norm of the weights of each unit.", none_text="no limit"),
        "rate": Help("Fraction to drop; 0.2 to 0.5 is common, more against overfitting."),
        "SpatialDropout1D.rate": Help("0.1 to 0.3; better than Dropout after convolutions."),
        "SpatialDropout2D.rate": Help("0.1 to 0.3; better than Dropout after convolutions."),
        "stddev": Help("About 0.1 for normalized inputs.", "Standard deviation"),
        "dropout": Help("Fraction of input units to drop in training."),
        "recurrent_dropout": Help("Fraction of the state to drop in training; slow."),
        "mask_value": Help("Steps whose values all equal this are skipped."),
        "return_sequences": Help("Required before another recurrent layer.", "Return sequences"),
        "recurrent_activation": Help(
            "Activation of the gates; the default suits almost every network."
        ),
        "go_backwards": Help("Process sequences in reverse order."),
        "merge_mode": Help("concat keeps both outputs; the other modes combine them."),
        "cell": Help("Recurrent layer for each direction."),
        "use_scale": Help("Scale the attention scores by a learned factor.", "Learn a scale"),
        "score_mode": Help("dot: dot product of query and key; concat: tanh of their sum."),
        "num_heads": Help("Number of attention heads; 2 to 8 is common.", "Heads"),
        "key_dim": Help("Often the number of features divided by the heads.", "Size of each head"),
        "value_dim": Help(none_text="same as the key", kind="int"),
        "input_dim": Help("Largest index in the data plus 1.", "Vocabulary size"),
        "output_dim": Help("16 to 128; larger for larger vocabularies.", "Embedding size"),
        "mask_zero": Help("Recurrent layers skip steps with index 0.", "Mask index 0"),
        "momentum": Help("Decay rate of the moving averages."),
        "center": Help("Add a learned offset."),
        "scale": Help("Multiply by a learned factor."),
        "epsilon": Help("Avoids division by zero."),
        "axis": Help("-1: the last axis, which holds channels or features."),
        "groups": Help("Must divide the number of channels."),
        "Rescaling.scale": Help("1/255 scales pixels to 0..1.", kind="float"),
        "offset": Help("Added after scaling.", kind="float"),
        "target_shape": Help("Without the batch axis; one length may be -1 (inferred)."),
        "dims": Help("Axes in their new order, from 1: 2, 1 swaps steps and features.", "Axes"),
        "n": Help("Number of repetitions: the length of the sequence.", "Steps"),
        "size": Help("Upsampling factor for each axis."),
        "interpolation": Help("nearest repeats pixels; bilinear is smoother."),
        "axes": Help("Axis to sum over, from 1; or one axis for each input.", kind="ints"),
        "normalize": Help("L2-normalize the inputs: the output is the cosine similarity."),
        "max_value": Help("Clip larger outputs to this value.", none_text="no limit", kind="float"),
        "negative_slope": Help("Slope for negative inputs: 0 to 1."),
        "threshold": Help("Inputs below this value are treated as negative."),
        "shared_axes": Help("Images: 1, 2 learns one slope for each channel."),
        "alpha": Help("Outputs are at least minus this value."),
        # Optimizers.
        "learning_rate": Help("Try a tenth and ten times the default first."),
        "beta_1": Help("Decay rate of the first moment (mean of gradients).", "Beta 1"),
        "beta_2": Help("Decay rate of the second moment (mean of squared gradients).", "Beta 2"),
        "rho": Help("Decay rate of the mean of squared gradients."),
        "SGD.momentum": Help("Fraction of the previous update to add; 0.9 is common."),
        "RMSprop.momentum": Help("Fraction of the previous update to add."),
        "nesterov": Help("Nesterov momentum."),
        "amsgrad": Help("Use the maximum of past second moments.", "AMSGrad"),
        "centered": Help("Normalize gradients by their estimated variance."),
        "weight_decay": Help(
            "Decays weights at each step; 0.004 is common with AdamW.",
            none_text="none",
            kind="float",
        ),
        "clipnorm": Help(
            "Clips the norm of each gradient.", "Maximum norm of each", "no limit", "float"
        ),
        "global_clipnorm": Help(
            "Clips the norm of all gradients together; try 1.",
            "Maximum global norm",
            "no limit",
            "float",
        ),
        "clipvalue": Help("Clips each gradient element.", "Maximum value", "no limit", "float"),
        "use_ema": Help("Keep an exponential moving average of the weights.", "Moving average"),
        "ema_momentum": Help("Decay rate of the moving average.", "Moving average momentum"),
    }
)

# Initial values of a new layer's options without a default in Keras.
STARTS: Mapping[str, Any] = MappingProxyType(
    {
        "shape": [28, 28, 1],
        "units": 64,
        "filters": 32,
        "kernel_size": 3,
        "pool_size": 2,
        "activation": "relu",
        "rate": 0.5,
        "stddev": 0.1,
        "cell": "LSTM",
        "num_heads": 2,
        "key_dim": 32,
        "head_dim": 32,
        "num_query_heads": 2,
        "num_key_value_heads": 1,
        "input_dim": 10_000,
        "output_dim": 32,
        "output_size": 1,
        "scale": 1 / 255,
        "target_shape": [-1],
        "dims": [2, 1],
        "n": 2,
        "axes": 1,
        "num_tokens": 10,
        "num_bins": 10,
        "height": 32,
        "width": 32,
        "factor": 0.1,
        "height_factor": 0.1,
        "width_factor": 0.1,
    }
)

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dtype": ("float32", "float16", "float64", "int32", "int64", "uint8"),
        "padding": ("valid", "same"),
        "Conv1D.padding": ("valid", "same", "causal"),
        "interpolation": ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"),
        "merge_mode": ("concat", "sum", "mul", "ave"),
        "score_mode": ("dot", "concat"),
        "cell": ("LSTM", "GRU", "SimpleRNN"),
        "data_format": ("channels_last", "channels_first"),
    }
)

# Optimizers in display order, and when to choose each.
OPTIMIZER_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "Adam": "A good first choice.",
        "AdamW": "Adam with weight decay, for large networks.",
        "SGD": "Has no state without momentum, so averaging sends less; momentum 0.9 helps.",
        "RMSprop": "For recurrent networks.",
        "Adagrad": "For sparse features; the effective learning rate keeps decreasing.",
        "Adadelta": "Adapts step sizes; use a learning rate of 1.",
        "Adamax": "Adam with the infinity norm in place of the second moment.",
        "Nadam": "Adam with Nesterov momentum.",
        "Ftrl": "For wide, sparse, linear models.",
        "Lion": "Has half of Adam's state; use a learning rate of 1e-4 or less.",
    }
)


def group_of(kind: str) -> Group:
    """The group of a layer class; "other" if it is not in the palette."""
    for group, kinds in PALETTE.items():
        if kind in kinds:
            return group
    return "other"


def help_for(kind: str, option: str) -> Help:
    """Label and help text of an option of a class."""
    return HELP.get(f"{kind}.{option}") or HELP.get(option) or Help()
