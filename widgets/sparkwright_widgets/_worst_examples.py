"""Cards of the worst examples: images, rows of numbers, or small plots of sequences."""

import base64
import io
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation import WorstExample, WorstExamples
from sparkwright.evaluation.plots import STYLES

from ._assets import asset
from ._block import Block, fold, table_block
from ._figure_svg import COLORS, inline_svg
from ._format import count_text, counted, escaped, number_text, shortened

Look = Literal["automatic", "image", "sequence", "row"]
Array = NDArray[Any]

_IMAGE_PIXELS = 96  # least length of the longest edge of a thumbnail
_MOST_PIXELS = 256
_MOST_COLUMNS = 12  # numbers of a row
_MOST_STEPS = 120  # steps of a small plot
_MOST_CHANNELS = 4
_MOST_CHARACTERS = 240  # characters of a text


def worst_blocks(worst: WorstExamples, *, look: Look = "automatic") -> list[Block]:
    """Return the examples with the highest loss, each with label, prediction and location."""
    caption = (
        f"The {count_text(len(worst))} examples with the highest loss, of "
        f"{count_text(worst.scored)}."
        if len(worst)
        else "No examples were scored."
    )
    cards = "".join(_card(example, worst, look) for example in worst)
    heads = ["place", "loss", "actual", "predicted"]
    rows = [
        [
            f"partition {example.partition}, row {example.row}",
            number_text(example.score),
            answer_text(example.labels, worst),
            answer_text(example.predictions, worst),
        ]
        for example in worst
    ]
    label = "The worst examples"
    table = table_block(heads, rows, label=label, text_columns=(2, 3))
    html = (
        f"<style>{asset('evaluation.css')}</style><p>{escaped(caption)}</p>"
        f'<ol class="sparkwright-worst-list" aria-label="{label}">{cards}</ol>'
        f"{fold('Data as a table', table.html).html}"
    )
    return [Block(html=html, text=f"{caption}\n\n{table.text}", kind="worst")]


def guess_kind(features: Array) -> Look:
    """Guess the kind of one example's array from its shape and dtype.

    Example:
        >>> shapes = [(28, 28, 1), (28, 28), (784,), (50, 3), (13,)]
        >>> [guess_kind(np.zeros(shape)) for shape in shapes]
        ['image', 'image', 'row', 'sequence', 'row']
    """
    shape = features.shape
    if len(shape) == 3 and shape[2] in (1, 3, 4):
        return "image"
    if len(shape) == 2:
        is_square = shape[0] == shape[1] and shape[0] >= 8
        return "image" if is_square or features.dtype == np.uint8 else "sequence"
    return "row"


def answer_text(arrays: Any, worst: WorstExamples) -> str:
    """Format labels or predictions: the class and its probability, or the numbers."""
    parts = [_answer_of(name, np.asarray(array), worst) for name, array in arrays.items()]
    if len(parts) > 1:
        parts = [f"{name}: {part}" for name, part in zip(arrays, parts, strict=True)]
    return "; ".join(parts) or "—"


def _answer_of(name: str, array: Array, worst: WorstExamples) -> str:
    known = worst.class_names
    names = known.get(name) or (next(iter(known.values())) if len(known) == 1 else None)
    flat = array.reshape(-1)
    if flat.size == 1:
        value = flat[0].item()
        is_class = float(value).is_integer() and array.dtype.kind in "iub"
        if names is not None and is_class and 0 <= value < len(names):
            return names[int(value)]
        return str(int(value)) if is_class else number_text(float(value))
    if array.ndim == 1 and flat.size > 1 and np.isfinite(flat).all() and _is_distribution(flat):
        top = int(flat.argmax())
        called = names[top] if names is not None and len(names) == flat.size else str(top)
        return called if flat[top] == 1 else f"{called} ({flat[top]:.1%})"
    shown = ", ".join(number_text(float(value)) for value in flat[:6])
    return f"{shown}, …" if flat.size > 6 else shown


def _is_distribution(values: Array) -> bool:
    return bool((values >= 0).all()) and math.isclose(float(values.sum()), 1.0, abs_tol=1e-2)


def _card(example: WorstExample, worst: WorstExamples, look: Look) -> str:
    pictures = "".join(_shown(name, a, look, example) for name, a in example.features.items())
    place = f"partition {example.partition}, row {example.row}"
    return (
        f'<li><div class="sparkwright-worst-look">{pictures}</div>'
        f"<div>loss <b>{escaped(number_text(example.score))}</b></div>"
        f"<div>is <b>{escaped(answer_text(example.labels, worst))}</b></div>"
        f"<div>predicted <b>{escaped(answer_text(example.predictions, worst))}</b></div>"
        f'<div class="sparkwright-worst-place">{escaped(place)}</div></li>'
    )


def _shown(name: str, features: Array, look: Look, example: WorstExample) -> str:
    chosen = guess_kind(features) if look == "automatic" else look
    alt = f"{name} of partition {example.partition}, row {example.row}"
    if chosen == "image" and (pixels := _as_pixels(features)) is not None:
        return f'<img alt="{escaped(alt)}" src="{_png(pixels)}">'
    if chosen == "sequence" and features.ndim >= 1:
        return _sparkline(features, alt)
    return _numbers(features)


def _as_pixels(features: Array) -> NDArray[np.uint8] | None:
    """Return (height, width) or (height, width, 3) uint8 pixels; None if it is no image."""
    image = np.squeeze(features)
    if image.ndim == 1:
        edge = math.isqrt(image.size)
        if edge * edge != image.size:
            return None
        image = image.reshape(edge, edge)
    if image.ndim == 3 and image.shape[-1] in (3, 4):
        image = image[..., :3]
    elif image.ndim != 2:
        return None
    step = -(-max(image.shape[:2]) // _MOST_PIXELS)
    image = image[::step, ::step]
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    numbers = np.nan_to_num(image.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = float(numbers.min(initial=0.0)), float(numbers.max(initial=0.0))
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    return np.round(255 * (numbers - low) / max(high - low, 1e-12)).astype(np.uint8)


def _png(pixels: NDArray[np.uint8]) -> str:
    """Return the pixels as a data URL of a PNG image."""
    from PIL import Image

    image = Image.fromarray(pixels)
    factor = -(-_IMAGE_PIXELS // max(image.size))
    if factor > 1:  # without smoothing, to show the network's input
        image = image.resize(
            (image.width * factor, image.height * factor), Image.Resampling.NEAREST
        )
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _sparkline(features: Array, alt: str) -> str:
    """Draw the channels of a sequence as small lines, each scaled to its own range."""
    from matplotlib.figure import Figure

    steps = features.reshape(len(features), -1).astype(np.float64)
    steps = np.where(np.isfinite(steps), steps, np.nan)
    figure = Figure(figsize=(1.6, 0.6))
    figure.patch.set_visible(False)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_ylim(-0.1, 1.1)
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(_MOST_STEPS, len(steps))).astype(int))
    for channel, values in enumerate(steps[chosen, :_MOST_CHANNELS].T):
        known = values[np.isfinite(values)]
        span = np.ptp(known) if known.size else 0.0
        heights = (values - known.min()) / span if span > 0 else np.full(len(values), 0.5)
        axes.plot(chosen, heights, STYLES[channel], color=COLORS[channel], linewidth=1.2)
    channels = counted(steps.shape[1], "channel")
    svg = inline_svg(figure, alt=f"{alt}: {len(steps)} steps, {channels}")
    return f"{svg}<span>{len(steps)} steps, {channels}</span>"


def _numbers(features: Array) -> str:
    flat: Sequence[Any] = features.reshape(-1)[:_MOST_COLUMNS].tolist()
    shown = ", ".join(
        number_text(float(value)) if isinstance(value, int | float) else str(value)
        for value in flat
    )
    shown = shortened(shown, _MOST_CHARACTERS)
    more = f", … ({count_text(features.size)} in all)" if features.size > _MOST_COLUMNS else ""
    return f'<span class="sparkwright-worst-row">{escaped(shown + more)}</span>'
