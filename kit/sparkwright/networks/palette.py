"""Common layers of Keras, and what people read about options and optimizers. Pure.

The installed Keras decides which layers and options exist; others have no help.
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

# Common layers by group, in the order of the list in the builder; all others of Keras follow.
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
    """What a form shows about an option.

    Attributes:
        advice: what to choose, in one sentence.
        label: default: the name of the option.
        none_text: what None means.
        kind: where the signature of the class does not tell it; default: it does.
    """

    advice: str = ""
    label: str = ""
    none_text: str = "automatic"
    kind: str = ""


# By option, or "kind.option" where the layer matters.
HELP: Mapping[str, Help] = MappingProxyType(
    {
        "Input.shape": Help(
            "Tables: columns. Images: height, width, channels. Series: steps, values."
        ),
        "Input.dtype": Help("int32 for the indices that an Embedding takes."),
        "units": Help("Number of outputs; for the last layer, one for each class or value."),
        "LSTM.units": Help("Size of the hidden state."),
        "GRU.units": Help("Size of the hidden state."),
        "SimpleRNN.units": Help("Size of the hidden state."),
        "activation": Help("relu inside a network; softmax, sigmoid or linear at its end."),
        "filters": Help("Number of patterns; often doubled after each pooling."),
        "kernel_size": Help("3 is common; 5 or 7 in the first layer."),
        "strides": Help("2 halves the output's axes.", none_text="as the window", kind="ints"),
        "pool_size": Help("2 halves the axes."),
        "padding": Help("valid: only where the window fits; same: zeros around the edges."),
        "dilation_rate": Help("Above 1 the kernel has gaps, and covers more."),
        "depth_multiplier": Help("Patterns for each channel."),
        "keepdims": Help("Whether the axes stay, with length 1.", "Keep the axes"),
        "use_bias": Help("Not needed when a BatchNormalization follows.", "Bias"),
        "kernel_initializer": Help("he_normal suits relu; glorot_uniform suits tanh and softmax."),
        "l1": Help("Adds this times the sum of absolute weights to the loss."),
        "l2": Help("Adds this times the sum of squared weights to the loss; 1e-4 is common."),
        "max_norm": Help("Largest norm of the weights of each unit.", none_text="no limit"),
        "rate": Help("0.2 to 0.5; more against overfitting."),
        "SpatialDropout1D.rate": Help("0.1 to 0.3; after convolutions better than Dropout."),
        "SpatialDropout2D.rate": Help("0.1 to 0.3; after convolutions better than Dropout."),
        "stddev": Help(
            "In units of the values: about 0.1 for normalized ones.", "Standard deviation"
        ),
        "dropout": Help("Fraction of input units to drop in training."),
        "recurrent_dropout": Help("Fraction of the state to drop in training; slow."),
        "mask_value": Help("Value that fills steps beyond the end of a sequence."),
        "return_sequences": Help("Needed before another recurrent layer.", "Output at each step"),
        "recurrent_activation": Help("Of the gates; the default suits almost every network."),
        "go_backwards": Help("Reads sequences from their end."),
        "merge_mode": Help("concat keeps both results; the others combine them."),
        "cell": Help("Recurrent layer for each direction."),
        "use_scale": Help("Learns a factor for the scores.", "Learn a scale"),
        "score_mode": Help("dot compares by products, concat by sums."),
        "num_heads": Help("Number of attentions; 2 to 8.", "Heads"),
        "key_dim": Help("Often the number of features divided by the heads.", "Size of each head"),
        "value_dim": Help(none_text="as the key", kind="int"),
        "input_dim": Help("One more than the largest index in the data.", "Indices"),
        "output_dim": Help("16 to 128; more for more indices.", "Size of each vector"),
        "mask_zero": Help("Recurrent layers then skip steps with index 0.", "Index 0 is padding"),
        "momentum": Help("How much of the mean so far stays at each step."),
        "center": Help("Learns an offset."),
        "scale": Help("Learns a factor."),
        "epsilon": Help("Avoids division by zero."),
        "axis": Help("-1, the last axis, is that of channels and features."),
        "groups": Help("Must divide the number of channels."),
        "Rescaling.scale": Help("1/255 scales pixels to 0..1.", kind="float"),
        "offset": Help("Added after scaling.", kind="float"),
        "target_shape": Help("Without the minibatch's axis; -1 once: what is left."),
        "dims": Help("Counted from 1: 2, 1 swaps steps and features.", "Axes"),
        "n": Help("Length of the sequence.", "Steps"),
        "size": Help("Factor for each axis."),
        "interpolation": Help("nearest repeats pixels; bilinear is smoother."),
        "axes": Help("Axis to sum over, counted from 1; or one for each input.", kind="ints"),
        "normalize": Help("Gives the cosine of the angle."),
        "max_value": Help("Larger values become this.", none_text="no limit", kind="float"),
        "negative_slope": Help("Slope for negative values: 0 to 1."),
        "threshold": Help("Values below this count as negative."),
        "shared_axes": Help("For images 1, 2: one slope for each channel."),
        "alpha": Help("The bound is minus this."),
        # Optimizers.
        "learning_rate": Help("Try ten times less and ten times more first."),
        "beta_1": Help("How much of the mean of gradients stays at each step.", "Beta 1"),
        "beta_2": Help("How much of the mean of squares stays at each step.", "Beta 2"),
        "rho": Help("How much of the mean of squares stays at each step."),
        "SGD.momentum": Help("How much of the last step is repeated; 0.9 is common."),
        "RMSprop.momentum": Help("How much of the last step is repeated."),
        "nesterov": Help("Nesterov momentum."),
        "amsgrad": Help("Keeps the largest mean of squares.", "AMSGrad"),
        "centered": Help("Divides by the deviation instead."),
        "weight_decay": Help(
            "Shrinks weights at each step; 0.004 is common with AdamW.",
            none_text="none",
            kind="float",
        ),
        "clipnorm": Help(
            "Bounds the norm of each gradient.", "Largest norm of each", "no limit", "float"
        ),
        "global_clipnorm": Help(
            "Bounds the norm of all gradients; try 1.", "Largest norm of all", "no limit", "float"
        ),
        "clipvalue": Help("Bounds each number.", "Largest value", "no limit", "float"),
        "use_ema": Help("Keeps an exponential mean of the weights.", "Mean of the weights"),
        "ema_momentum": Help("How slowly the mean follows.", "Momentum of the mean"),
    }
)

# What a new layer begins with, where Keras has no default.
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

# Optimizers in the order of the form, and when to choose them.
OPTIMIZER_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "Adam": "A good first choice.",
        "AdamW": "Adam with weight decay, for large networks.",
        "SGD": "Keeps no state, so averaging sends little; momentum 0.9 helps.",
        "RMSprop": "For recurrent networks.",
        "Adagrad": "For sparse features; its steps become ever smaller.",
        "Adadelta": "Adapts its step sizes; use the learning rate 1.",
        "Adamax": "Adam with the largest gradient in place of the mean of squares.",
        "Nadam": "Adam with Nesterov momentum.",
        "Ftrl": "For wide, sparse, linear models.",
        "Lion": "Keeps half of Adam's state; a learning rate of 1e-4 or less.",
    }
)


def group_of(kind: str) -> Group:
    """The group of a class of layers; "other" if it is not in the palette."""
    for group, kinds in PALETTE.items():
        if kind in kinds:
            return group
    return "other"


def help_for(kind: str, option: str) -> Help:
    """What a form shows about an option of a class."""
    return HELP.get(f"{kind}.{option}") or HELP.get(option) or Help()
