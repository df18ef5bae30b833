"""Names of layers: which ones TensorFlow accepts, and how new ones are made."""

import re
from collections.abc import Collection

NAME_RULE = 'must begin with a letter or digit, and hold only letters (a-z), digits, "_", "-", ".".'
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def is_name(name: str) -> bool:
    """Whether TensorFlow accepts it for a layer.

    Example:
        >>> is_name("conv_1"), is_name("my layer")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None


def name_for(kind: str, taken: Collection[str]) -> str:
    """A name for a layer of `kind` that is not among `taken`.

    Example:
        >>> name_for("MaxPooling2D", ["max_pooling2d"])
        'max_pooling2d_2'
    """
    return free_name(snake_case(kind), taken)


def snake_case(kind: str) -> str:
    """The class' name as Keras makes a layer's name of it.

    Example:
        >>> snake_case("Conv2DTranspose"), snake_case("LSTM"), snake_case("PReLU")
        ('conv2d_transpose', 'lstm', 'p_re_lu')
    """
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", kind)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, or with the least number behind it that makes it new.

    Example:
        >>> free_name("dense", []), free_name("dense_2", ["dense_2"])
        ('dense', 'dense_3')
    """
    if name not in taken:
        return name
    stem, _, digits = name.rpartition("_")
    stem, number = (stem, int(digits)) if stem and digits.isdecimal() else (name, 1)
    while (found := f"{stem}_{number}") in taken or number < 2:
        number += 1
    return found
