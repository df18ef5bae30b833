"""The view of one result: its sections in folds, with their controls."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright.evaluation import ROCBinary
from sparkwright_widgets._block import Block, table_block
from sparkwright_widgets._evaluation_blocks import blocks_of
from sparkwright_widgets._format import count_text, number_text, short_number
from sparkwright_widgets._ui import Dropdown, Fold, Part

from ._results import Results, Section, grid_html
from ._threshold_explorer import ThresholdExplorer

_MOST_CHOICES = 200
_LOOKS = [
    ("automatic", "automatic"),
    ("images", "image"),
    ("sequences", "sequence"),
    ("rows of numbers", "row"),
]


class ShownResult(Part):
    """The folds of one result; calls `changed` when the threshold changes."""

    def __init__(
        self, results: Results, sections: Sequence[Section], changed: Callable[[], None]
    ) -> None:
        super().__init__()
        self.found = results
        self.folds: dict[str, Fold] = {}
        self.pictures: dict[str, widgets.HTML] = {}
        self.choices: dict[str, Dropdown] = {}
        self.explorer: ThresholdExplorer | None = None
        self._wanted: dict[str, Callable[[], str]] = {}  # section -> pending drawing
        self._drawing = threading.Lock()
        curves = results.curves()
        for section in sections:
            picture = widgets.HTML(grid_html(section.blocks))
            self.pictures[section.key] = picture
            if section.key == "roc" and curves:
                self.explorer = ThresholdExplorer(curves[:_MOST_CHOICES])
                self.explorer.on_move(self.guarded(changed))
                self.folds["threshold"] = Fold("Threshold", [self.explorer])
            choice = self._choice(section.key)
            inside = [picture] if choice is None else [choice, picture]
            self.folds[section.key] = Fold(section.title, inside)
        for fold in list(self.folds.values())[:2]:
            fold.set_opened(True)
        self.show(*self.folds.values())

    def threshold_block(self) -> Block | None:
        """Counts and rates at the chosen threshold, as a static table; None without curves."""
        if self.explorer is None:
            return None
        found, explorer = self.explorer.reading, self.explorer
        name = explorer.choices[min(explorer.choice, len(explorer.choices) - 1)]
        if name.isdecimal():  # "a score of 0" would read as the score's value
            name = f"{'output' if isinstance(self.found.roc, ROCBinary) else 'class'} {name}"
        of = f" of {name}" if name else ""
        cost = found.cost(explorer.cost_false_positive, explorer.cost_false_negative)
        counts = (
            found.true_positives,
            found.false_negatives,
            found.false_positives,
            found.true_negatives,
        )
        rates = (found.precision, found.recall, found.f1, found.accuracy)
        return table_block(
            [*("TP", "FN", "FP", "TN"), *("precision", "recall", "F1", "accuracy"), "cost"],
            [
                [
                    *map(count_text, counts),
                    *(number_text(rate) for rate in rates),
                    short_number(cost, 6),
                ]
            ],
            caption=f"Threshold on the score{of}: {found.threshold_text}.",
            label="Chosen threshold",
            kind="threshold",
        )

    def _choice(self, key: str) -> Dropdown | None:
        """The dropdown that changes the drawing of a section; None if there is no choice."""
        found: Any = self.found.places[key][0]
        if key == "calibration":
            classes = [(name, k) for k, name in enumerate(found.names[:_MOST_CHOICES])]
            words, option = "Probability of", "of"
            options: list[Any] = [("the predicted class", None), *classes]
        elif key == "regression" and len(found.output_names) > 1:
            words, option = "Output", "of"
            options = [(name, k) for k, name in enumerate(found.output_names[:_MOST_CHOICES])]
        elif key == "worst":
            words, option, options = "Show features as", "look", _LOOKS
        else:
            return None
        choice = Dropdown(description=words, options=options)
        if key == "calibration" and found.classes == 2:
            choice.value = 1

        def chosen(change: Any) -> None:
            value = change["new"]
            self._wanted[key] = lambda: grid_html(blocks_of(found, **{option: value}))
            self._draw_next()

        choice.observe(self.guarded(chosen), "value")
        self.choices[key] = choice
        return choice

    def _draw_next(self) -> None:
        """Draw the last choice of each section in turn."""
        with self._drawing:
            if not self._wanted or self._background.busy:
                return  # the current drawing calls this when done
            key = next(iter(self._wanted))
            picture, drawn = self.pictures[key], self._wanted.pop(key)

            def show(html: str) -> None:
                picture.value = html

            self.in_background("Drawing", drawn, show, finally_=self._draw_next)
