"""The evaluation panel: evaluates a network on Spark, shows and compares results."""

import threading
from collections.abc import Mapping
from typing import Any, cast

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation import WorstExamples
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block, sentence_block
from sparkwright_widgets._evaluation_blocks import comparison_blocks
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._ui import Checkbox, Dropdown, Fold, Part, Text, advice, row, swap

from ._results import Results, Section, grid_html
from ._shown import ShownResult
from ._task import KINDS, TASKS, Kind, Output, Task, outputs_of, prototypes

_KIND_WORDS: dict[Kind, str] = {
    "roc": "ROC and thresholds",
    "calibration": "Calibration",
    "worst": "Worst examples",
}
_KEEP: Any = object()


class EvaluationPanel(Part):
    """Evaluates a network, with threshold slider, worst examples and comparison of results.

    Args:
        network: a `SparkNetwork`; default None: only show results added by `add`.
        data: a data set, or a dict of data sets by name; default None: set by `set_context`.

    Attributes:
        results: results by name, the latest last.

    Example:
        panel = EvaluationPanel(network, {"test": test})
        panel.evaluate("test").evaluation.accuracy
        EvaluationPanel.of(roc=roc)
    """

    def __init__(self, network: Any = None, data: Any = None) -> None:
        super().__init__("Evaluation", styles=("evaluation.css",))
        self.results: dict[str, Results] = {}
        self._network: Any = None
        self._data: dict[str, Any] = {}
        self._outputs: list[Output] = []
        self._sections: dict[str, list[Section]] = {}
        self._compared: list[Block] = []
        self._filling = False
        self._enabling = threading.RLock()

        self.data_choice = Dropdown(description="Data")
        self.output_choice = Dropdown(description="Output")
        self.task_choice = Dropdown(
            description="Task",
            options=[(words, task) for task, words in TASKS.items()],
        )
        self.kind_boxes = {
            kind: Checkbox(value=True, description=words) for kind, words in _KIND_WORDS.items()
        }
        self.name_field = Text(description="Result name", placeholder="name of the data")
        self.evaluate_button = self.new_button(
            "Evaluate", self._begin, button_style="primary", icon="check"
        )
        self.reason = widgets.HTML()
        self.result_choice = Dropdown(description="Result")
        self.forget_button = self.new_button("Remove this result", self._forget)
        self.shown_box = widgets.VBox()
        self.comparison = widgets.HTML()
        self.comparison_fold = Fold("Comparison", [self.comparison], opened=True)
        self.asking = widgets.VBox(
            [
                row(self.data_choice, self.output_choice, self.task_choice),
                row(*self.kind_boxes.values()),
                row(self.name_field, self.evaluate_button),
                self.reason,
            ]
        )
        self.choosing = row(self.result_choice, self.forget_button)
        self.show(self.asking, self.choosing, self.shown_box, self.comparison_fold)

        self.output_choice.observe(self.guarded(lambda _change: self._suggest()), "value")
        self.task_choice.observe(self.guarded(lambda _change: self._offer()), "value")
        self.data_choice.observe(self.guarded(lambda _change: self._refresh()), "value")
        self.result_choice.observe(self.guarded(self._choose_result), "value")
        self.set_context(network=network, data=data)
        self._show_results()

    @classmethod
    def of(
        cls,
        *,
        evaluation: Any = None,
        roc: Any = None,
        calibration: Any = None,
        regression: Any = None,
        worst: WorstExamples | None = None,
        name: str = "result",
    ) -> "EvaluationPanel":
        """Create a panel that shows existing evaluations, without Spark.

        Args:
            evaluation: `Evaluation` or `EvaluationBinary`.
            roc: `ROC`, `ROCDigest`, `ROCBinary` or `ROCMultiClass`.
            calibration: `EvaluationCalibration`.
            regression: `RegressionEvaluation`.
            worst: result of `SparkNetwork.worst_examples`.
            name: name of the result; default "result".

        Raises:
            ConfigurationError: if no evaluation is given, or one has the wrong type.
        """
        given = (evaluation, roc, calibration, regression, worst)
        panel = cls()
        panel.add(name, [each for each in given if each is not None])
        return panel

    # --- network and data

    def set_context(self, *, network: Any = _KEEP, data: Any = _KEEP) -> None:
        """Set the network and the data; an omitted argument leaves its value unchanged.

        Args:
            network: a `SparkNetwork`; None: no network.
            data: a data set, or a dict of data sets by name; None: no data.
        """
        if network is not _KEEP:
            self._network = network
            model = getattr(network, "model", None)
            self._outputs = [] if model is None else outputs_of(model)
            names = [output.name for output in self._outputs]
            self.output_choice.options = names
            self.output_choice.value = names[0] if names else None
            self.output_choice.layout.display = None if len(names) > 1 else "none"
            self._suggest()
        if data is not _KEEP:
            several = {} if data is None else data if isinstance(data, Mapping) else {"data": data}
            self._data = dict(several)
            chosen = self.data_choice.value
            self.data_choice.options = [(_data_label(n, each), n) for n, each in several.items()]
            self.data_choice.value = chosen if chosen in several else next(iter(several), None)
        self._refresh()

    @property
    def problem(self) -> str | None:
        """Why the network cannot be evaluated; None if it can."""
        if self._network is None:
            return "There is no network yet. Train or load one."
        if not self._data:
            return "There is no data to evaluate on yet."
        return None

    def evaluate(self, data: str | None = None, *, name: str | None = None) -> Results:
        """Evaluate and return the result; blocks, so use it in cells, not in callbacks.

        Args:
            data: name of the data; default None: the choice in the panel.
            name: name of the result; default None: the name in the panel, else that of the data.

        Raises:
            ConfigurationError: if there is no network or no such data.
            DataError: if the data does not match the network.
        """
        self._require_ready()
        if data is not None:
            if data not in self._data:
                raise ConfigurationError(
                    f"`data` must be one of {list(self._data)}. Received: data={data!r}."
                )
            self.data_choice.value = data
        found, sections = self._evaluated()()
        self._take(name or self._next_name(), found, sections)
        return found

    def add(self, name: str, evaluation: Any) -> None:
        """Add a result and compare it with the other results; replaces one of the same name.

        Args:
            name: name of the result.
            evaluation: an evaluation, a list of evaluations, or another panel's `results[...]`.

        Raises:
            ConfigurationError: if `evaluation` has another type or is empty.
        """
        found = Results.of(evaluation)
        if not found.evaluations and found.worst is None:
            raise ConfigurationError("a result needs at least one evaluation. Received: none.")
        self._take(str(name), found, found.sections())

    # --- evaluating

    def _suggest(self) -> None:
        """Set the task that fits the chosen output."""
        for output in self._outputs:
            if output.name == self.output_choice.value:
                self.task_choice.value = output.task

    def _offer(self) -> None:
        """Show the checkboxes of the chosen task; hidden ones keep their values."""
        task = cast("Task", self.task_choice.value)
        for kind, box in self.kind_boxes.items():
            box.layout.display = None if kind in KINDS[task] else "none"

    def _refresh(self) -> None:
        """Enable the controls, or show why they are disabled."""
        problem = self.problem
        with self._enabling:  # several threads call this; the last one must win
            self.evaluate_button.disabled = problem is not None or self._background.busy
        self.reason.value = advice(problem or "")
        # A panel that only shows existing results has no inputs.
        is_needed = self._network is not None or bool(self._data) or not self.results
        self.asking.layout.display = None if is_needed else "none"

    def _require_ready(self) -> None:
        if self.problem is not None:
            raise ConfigurationError(
                f"{self.problem} Received: network={self._network!r}, data={list(self._data)}."
            )

    def _begin(self) -> None:
        self._require_ready()
        name, work = self._next_name(), self._evaluated()
        self.in_background(
            f"Evaluating on {self.data_choice.value}",
            work,
            lambda done: self._take(name, *done),
            finally_=self._refresh,
        )
        self._refresh()

    def _next_name(self) -> str:
        """The typed name, or that of the data and output; with a number if it is taken."""
        several = [self.output_choice.value] if len(self._outputs) > 1 else []
        base = self.name_field.value.strip() or ", ".join(
            map(str, [self.data_choice.value, *several])
        )
        name, number = base, 2
        while name in self.results:
            name, number = f"{base} ({number})", number + 1
        return name

    def _evaluated(self) -> Any:
        """A function that evaluates the current choice on Spark and draws the result."""
        network, data = self._network, self._data[str(self.data_choice.value)]
        task = cast("Task", self.task_choice.value)
        wanted = {kind for kind, box in self.kind_boxes.items() if box.value}
        output = self.output_choice.value if len(self._outputs) > 1 else None
        names = _class_names(data, output) or _class_names(network, output)
        if task == "two classes" and names is not None and len(names) != 2:
            names = None
        kinds = prototypes(task, wanted, names)

        def work() -> tuple[Results, list[Section]]:
            given = kinds if output is None else {output: kinds}
            found = network.do_evaluation(data, given)
            found = list(found if output is None else found[output])
            if "worst" in wanted:
                found.append(network.worst_examples(data))
            results = Results.of(found)
            return results, results.sections()

        return work

    # --- showing

    def _take(self, name: str, found: Results, sections: list[Section]) -> None:
        self.results[name] = found
        self._sections[name] = sections
        self._show_results(name)
        self._changed()

    def _forget(self) -> None:
        name = str(self.result_choice.value)
        self.results.pop(name, None)
        self._sections.pop(name, None)
        self._show_results()
        self._changed()

    def _show_results(self, chosen: str | None = None) -> None:
        """Show the chosen result, by default the latest, and the comparison of all results."""
        names = list(self.results)
        chosen = chosen if chosen in self.results else (names[-1] if names else None)
        self._filling = True
        try:
            self.result_choice.options = [(_result_label(n, self.results[n]), n) for n in names]
            self.result_choice.value = chosen
        finally:
            self._filling = False
        self.choosing.layout.display = None if names else "none"
        self.comparison_fold.layout.display = None if len(names) > 1 else "none"
        self._compared = []
        if len(names) > 1:
            self._compared = comparison_blocks({n: r.evaluations for n, r in self.results.items()})
        self.comparison.value = grid_html(self._compared) if self._compared else ""
        self._show_chosen()
        self._refresh()

    def _choose_result(self, _change: Any) -> None:
        if not self._filling:
            self._show_chosen()
            self._changed()

    def _show_chosen(self) -> None:
        shown: list[widgets.Widget] = []
        if (name := self.result_choice.value) is not None:
            shown.append(ShownResult(self.results[name], self._sections[name], self._changed))
        swap(self.shown_box, *shown)

    @property
    def shown(self) -> "ShownResult | None":
        """The view of the chosen result; None if there is none."""
        return self.shown_box.children[0] if self.shown_box.children else None

    def _still(self) -> Block | None:
        name = self.result_choice.value
        if name is None:
            return sentence_block("Nothing has been evaluated yet.", kind="evaluation")
        title = f"Evaluation: {_result_label(name, self.results[name])}"
        parts = [(each.title, each.blocks) for each in self._sections[name]]
        threshold = None if self.shown is None else self.shown.threshold_block()
        parts += [("Threshold", [threshold])] if threshold is not None else []
        parts += [("Comparison", self._compared)] if self._compared else []
        html = "".join(f"<h5>{escaped(words)}</h5>{grid_html(blocks)}" for words, blocks in parts)
        words = [title, *(text for each, blocks in parts for text in (each, *map(str, blocks)))]
        return Block(
            html=f"<style>{asset('evaluation.css')}</style><h4>{escaped(title)}</h4>{html}",
            text="\n\n".join(words),
            kind="evaluation",
        )


def _data_label(name: str, data: Any) -> str:
    if getattr(data, "is_counted", False):
        return f"{name} ({count_text(data.count())} examples)"
    return str(name)


def _result_label(name: str, found: Results) -> str:
    return f"{name}, {count_text(found.examples)} examples"


def _class_names(owner: Any, output: str | None) -> tuple[str, ...] | None:
    known: Mapping[str, tuple[str, ...]] = getattr(owner, "class_names", None) or {}
    if output is not None:
        return tuple(known[output]) if output in known else None
    return tuple(next(iter(known.values()))) if len(known) == 1 else None
