"""Common Keras layers by group, help and initial values of their options. Imports no Keras.

The installed Keras determines which layers and options exist; options missing here have no help.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

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
        "core": ("Input", "Dense", "Dropout", "Masking", "TimeDistributed"),
        "activation": ("Activation", "LeakyReLU"),
        "convolution": ("Conv1D", "Conv2D", "Conv2DTranspose"),
        "pooling": (
            *("MaxPooling1D", "MaxPooling2D"),
            *("GlobalAveragePooling1D", "GlobalAveragePooling2D"),
        ),
        "recurrent": ("LSTM", "GRU", "Bidirectional", "MultiHeadAttention"),
        "embedding": ("Embedding",),
        "normalization": ("BatchNormalization", "LayerNormalization", "Rescaling"),
        "reshaping": ("Flatten", "Reshape"),
        "merging": ("Add", "Multiply", "Concatenate"),
    }
)
# Parts of the names of the remaining layers.
_NAMED: Mapping[Group, str] = {
    "pooling": "Pooling",
    "convolution": "Conv",
    "normalization": "Normalization$",
    "reshaping": "Padding|Cropping|UpSampling|Permute|RepeatVector",
    "recurrent": "RNN|Attention",
    "activation": "ReLU$|ELU$|Softmax$",
    "merging": "^(Average|Maximum|Minimum|Subtract|Dot)$",
}

# Help texts; keys are "option", or "class.option" for one class.
HELP: Mapping[str, str] = MappingProxyType(
    {
        "Input.shape": "Tables: columns. Images: height, width, channels. "
        "Sequences: steps, features.",
        "Input.dtype": "int32 for the indices of an Embedding.",
        "units": "Number of outputs; in the last layer, one for each class or target.",
        "LSTM.units": "Size of the hidden state.",
        "GRU.units": "Size of the hidden state.",
        "activation": "relu in hidden layers; softmax, sigmoid or linear in the last layer.",
        "filters": "Number of output channels; often doubled after each pooling layer.",
        "kernel_size": "3 is common; 5 or 7 in the first layer.",
        "strides": "2 halves the size of the output.",
        "pool_size": "2 halves the size of the output.",
        "padding": "valid: no padding; same: zero padding at the borders.",
        "use_bias": "Not needed before a BatchNormalization.",
        "kernel_initializer": "he_normal suits relu; glorot_uniform suits tanh and softmax.",
        "l1": "L1 regularization factor: multiplies the sum of absolute weights.",
        "l2": "L2 regularization factor: multiplies the sum of squares; 1e-4 is common.",
        "max_norm": "Maximum norm of the weights of each unit.",
        "rate": "Fraction to drop; 0.2 to 0.5 is common, more against overfitting.",
        "dropout": "Fraction of input units to drop in training.",
        "recurrent_dropout": "Fraction of the state to drop in training; slow.",
        "mask_value": "Steps whose values all equal this are skipped.",
        "return_sequences": "Required before another recurrent layer.",
        "merge_mode": "concat keeps both outputs; the other modes combine them.",
        "cell": "Recurrent layer for each direction.",
        "num_heads": "Number of attention heads; 2 to 8 is common.",
        "key_dim": "Often the number of features divided by the heads.",
        "input_dim": "Largest index in the data plus 1.",
        "output_dim": "16 to 128; larger for larger vocabularies.",
        "mask_zero": "Recurrent layers skip steps with index 0.",
        "scale": "1/255 scales pixels to 0..1.",
        "offset": "Added after scaling.",
        "target_shape": "Without the batch axis; one length may be -1 (inferred).",
        "negative_slope": "Slope for negative inputs: 0 to 1.",
        "axis": "-1: the last axis, which holds channels or features.",
        # Optimizers.
        "learning_rate": "Try a tenth and ten times the default first.",
        "SGD.momentum": "Fraction of the previous update to add; 0.9 is common.",
        "RMSprop.momentum": "Fraction of the previous update to add.",
        "weight_decay": "Decays weights at each step; 0.004 is common with AdamW.",
        "global_clipnorm": "Clips the norm of all gradients together; try 1.",
    }
)
# Options with a help text that forms show under "More options".
RARE = ("axis", "use_bias", "kernel_initializer", "global_clipnorm")

# Initial values of a new layer's options without a default in Keras.
STARTS: Mapping[str, Any] = MappingProxyType(
    {
        **{"shape": [28, 28, 1], "units": 64, "filters": 32, "kernel_size": 3, "pool_size": 2},
        **{"activation": "relu", "rate": 0.5, "stddev": 0.1, "scale": 1 / 255, "cell": "LSTM"},
        **{"num_heads": 2, "key_dim": 32, "input_dim": 10_000, "output_dim": 32},
        **{"target_shape": [-1], "dims": [2, 1], "n": 2, "axes": 1, "output_size": 1},
        **{"head_dim": 32, "num_query_heads": 2, "num_key_value_heads": 1, "factor": 0.1},
        **{"num_bins": 10, "height": 32, "width": 32, "height_factor": 0.1, "width_factor": 0.1},
    }
)

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dtype": ("float32", "float16", "float64", "int32", "int64", "uint8"),
        "padding": ("valid", "same"),
        "Conv1D.padding": ("valid", "same", "causal"),
        "merge_mode": ("concat", "sum", "mul", "ave"),
        "cell": ("LSTM", "GRU", "SimpleRNN"),
        "data_format": ("channels_last", "channels_first"),
    }
)

# Common optimizers in display order, and when to choose each.
OPTIMIZER_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "Adam": "A good first choice.",
        "AdamW": "Adam with weight decay, for large networks.",
        "SGD": "Has no state without momentum, so averaging sends less; momentum 0.9 helps.",
        "RMSprop": "For recurrent networks.",
        "Lion": "Has half of Adam's state; use a learning rate of 1e-4 or less.",
    }
)


def group_of(kind: str) -> Group:
    """The group of a layer class, from its name if it is not in the palette."""
    for group, kinds in PALETTE.items():
        if kind in kinds:
            return group
    for group, part in _NAMED.items():
        if re.search(part, kind):
            return group
    return "other"


def help_for(kind: str, option: str) -> str:
    """The help text of an option of a class; empty if there is none."""
    return HELP.get(f"{kind}.{option}", HELP.get(option, ""))
