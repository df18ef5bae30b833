"""Shapes, sizes and states of layers as words and signs. Pure."""

from dataclasses import dataclass

from sparkwright.networks import LayerAnalysis
from sparkwright.networks.palette import group_of
from sparkwright_widgets._format import count_text

_GROUP_SIGNS = {
    "core": "▤",
    "convolution": "▦",
    "pooling": "▽",
    "recurrent": "↻",
    "embedding": "#",
    "normalization": "≈",
    "reshaping": "⇄",
    "merging": "⋎",
    "activation": "∿",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RowState:
    """How a row stands: a sign and a word, so that colour never stands alone.

    Attributes:
        key: "ok", "problem", "waiting" or "off"; names the class in the styles.
        sign: one character.
        word: what the sign means.
    """

    key: str
    sign: str
    word: str


def shape_text(shape: tuple[int | None, ...] | None) -> str:
    """The shape of one example.

    Example:
        >>> [shape_text(shape) for shape in ((28, 28, 1), (None, 8), (), None)]
        ['28 x 28 x 1', 'any x 8', 'one number', '—']
    """
    if shape is None:
        return "—"
    if not shape:
        return "one number"
    return " x ".join("any" if size is None else count_text(size) for size in shape)


def parameters_text(parameters: int | None) -> str:
    """How many numbers a layer holds.

    Example:
        >>> [parameters_text(count) for count in (0, 1, 520, None)]
        ['no parameters', '1 parameter', '520 parameters', '—']
    """
    if parameters is None:
        return "—"
    if parameters == 0:
        return "no parameters"
    return f"{count_text(parameters)} parameter{'' if parameters == 1 else 's'}"


def row_state(row: LayerAnalysis, mistake: str = "") -> RowState:
    """How `row` stands; `mistake` is what is wrong with a value being typed into it."""
    if not row.enabled:
        return RowState(key="off", sign="◌", word="off")
    if mistake or row.problem is not None:
        return RowState(key="problem", sign="✕", word="problem")
    if row.waiting_for is not None:
        return RowState(key="waiting", sign="⋯", word=f"waiting for row {row.waiting_for + 1}")
    if row.output_shape is None and row.parameters is None:
        return RowState(key="waiting", sign="⋯", word="not known yet")
    return RowState(key="ok", sign="✓", word="OK")


def group_sign(kind: str) -> str:
    """One character for the kind of a layer."""
    return "→" if kind in ("Input", "InputLayer") else _GROUP_SIGNS.get(group_of(kind), "□")


def shortened(text: str, length: int) -> str:
    """`text` with at most `length` characters.

    Example:
        >>> shortened("batch_normalization_12", 10)
        'batch_nor…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"
