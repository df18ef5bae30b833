"""One result in view: its sections in folds, and the controls that belong to each."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright.evaluation import ROCBinary
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_blocks import (
    calibration_blocks,
    regression_blocks,
    worst_blocks,
)
from sparkwright_widgets._evaluation_figures._blocks import table_block
from sparkwright_widgets._format import count_text
from sparkwright_widgets._ui import Dropdown, Fold, Part

from ._results import Results
from ._sections import Section, grid_html
from ._threshold_explorer import ThresholdExplorer

_WIDE = {"description_width": "initial"}
_MOST_CHOICES = 200
_LOOKS = [
    ("what fits their shape", "automatic"),
    ("images", "image"),
    ("sequences", "sequence"),
    ("rows of numbers", "row"),
]


class ShownResult(Part):
    """Folds for what a result has; the first one is open.

    Args:
        results: the evaluations.
        sections: the same, drawn.
        changed: called when another threshold was chosen.
    """

    def __init__(
        self, results: Results, sections: Sequence[Section], changed: Callable[[], None]
    ) -> None:
        super().__init__()
        self.found = results
        self.folds: dict[str, Fold] = {}
        self.pictures: dict[str, widgets.HTML] = {}
        self.choices: dict[str, Dropdown] = {}
        self.explorer: ThresholdExplorer | None = None
        self._wanted: dict[str, Callable[[], str]] = {}  # section -> what is still to be drawn
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
        """What the chosen threshold gives, for the static copy; None without curves."""
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
            [[*map(count_text, counts), *(f"{rate:.4f}" for rate in rates), f"{cost:,.6g}"]],
            caption=f"Predicted positive from a score{of} on: {found.threshold_text}.",
            label="Chosen threshold",
            kind="threshold",
        )

    def _choice(self, key: str) -> Dropdown | None:
        """What of a section can be drawn otherwise, where there is something to choose."""
        if key == "calibration" and (found := self.found.calibration) is not None:
            classes = [(name, k) for k, name in enumerate(found.names[:_MOST_CHOICES])]
            options = [("the predicted class", None), *classes]
            choice = Dropdown(description="Probability of", options=options, style=_WIDE)
            if found.classes == 2:
                choice.value = 1
            self._redraw(key, choice, lambda of: calibration_blocks(found, of=of))
        elif key == "regression" and (numbers := self.found.regression) is not None:
            names = numbers.output_names[:_MOST_CHOICES]
            if len(names) < 2:
                return None
            options = [(name, k) for k, name in enumerate(names)]
            choice = Dropdown(description="Output", options=options, style=_WIDE)
            self._redraw(key, choice, lambda of: regression_blocks(numbers, of=of))
        elif key == "worst" and (worst := self.found.worst) is not None:
            choice = Dropdown(description="Show features as", options=_LOOKS, style=_WIDE)
            self._redraw(key, choice, lambda look: worst_blocks(worst, look=look))
        else:
            return None
        self.choices[key] = choice
        return choice

    def _redraw(self, key: str, choice: Dropdown, blocks: Callable[[Any], list[Block]]) -> None:
        def chosen(change: Any) -> None:
            value = change["new"]
            self._wanted[key] = lambda: grid_html(blocks(value))
            self._draw_next()

        choice.observe(self.guarded(chosen), "value")

    def _draw_next(self) -> None:
        """Draw the last choice of each section, one after the other."""
        with self._drawing:
            if not self._wanted or self._background.busy:
                return  # what is being drawn calls this at its end
            key = next(iter(self._wanted))
            picture, drawn = self.pictures[key], self._wanted.pop(key)

            def show(html: str) -> None:
                picture.value = html

            self.in_background("Drawing", drawn, show, finally_=self._draw_next)
