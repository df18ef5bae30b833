"""Edit the training settings of a network: task, outputs, optimizer, seed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as widgets

from sparkwright.configuration import nested_options, plain_options
from sparkwright.networks import (
    LOSSES,
    METRICS,
    NetworkAnalysis,
    NetworkSpec,
    OptimizerSpec,
    OutputSpec,
    Task,
    defaults_for,
    optimizer_kind,
    optimizer_kinds,
)
from sparkwright.networks.keras_catalog import names_of
from sparkwright.options import Option
from sparkwright_widgets._ui import Button, Dropdown, NestedField, advice, row, swap

from ._value_form import ValueForm

_METRICS_NOTE = "Metrics are shown beside the loss; training does not optimize them."


def losses_of(task: Task) -> tuple[str, ...]:
    """Names of all losses, the losses for `task` first.

    Example:
        >>> losses_of("regression")[:2]
        ('mean_squared_error', 'mean_absolute_error')
    """
    fitting = [name for name, loss in LOSSES.items() if loss.tasks[0] == task]
    also = [name for name, loss in LOSSES.items() if task in loss.tasks]
    return tuple(dict.fromkeys([*fitting, *also, *LOSSES, *names_of("losses")]))


def metrics_of(loss: str) -> tuple[str, ...]:
    """Names of the common metrics compatible with a loss; all if the loss is unknown.

    Example:
        >>> metrics_of("sparse_categorical_crossentropy")[0]
        'accuracy'
    """
    kind = LOSSES.get(loss)
    return tuple(name for name, m in METRICS.items() if kind is None or kind.labels in m.labels)


class TrainingEditor(widgets.VBox):
    """Edits everything of a network except its layers."""

    def __init__(
        self, change: Callable[[NetworkSpec, str, str], None], mistaken: Callable[[], None]
    ) -> None:
        self._change, self.mistaken = change, mistaken
        self._spec = NetworkSpec()
        self._analysis = NetworkAnalysis(rows=())
        self.network = ValueForm(self._network_changed, mistaken)
        self.outputs: list[OutputEditor] = []
        self.outputs_box = widgets.VBox()
        self.add_button = Button(description="Add an output")
        self.add_button.on_click(lambda _button: self._add_output())
        self.optimizer = ValueForm(lambda _name: self._optimizer_chosen(), mistaken)
        self.settings = ValueForm(self._setting_changed, mistaken)
        self.advice = widgets.HTML()
        (schedule,) = nested_options(OptimizerSpec)
        self.schedule = NestedField(schedule, None, self._schedule_changed)
        super().__init__(
            [
                *(self.network, self.outputs_box, row(self.add_button)),
                *(self.optimizer, self.advice, self.settings, self.schedule),
            ]
        )
        self.add_class("sparkwright-training")

    @property
    def mistake(self) -> str:
        """The first validation error of a field; empty if there is none."""
        forms = (self.network, *(editor.form for editor in self.outputs), self.settings)
        typed = (*(form.mistake for form in forms), *self.schedule.problems.values())
        return next(filter(None, typed), "")

    @property
    def layers(self) -> list[str]:
        """Names of the layers that may be outputs."""
        return [row.name for row in self._analysis.rows if row.enabled and row.kind != "Input"]

    def show(self, spec: NetworkSpec, analysis: NetworkAnalysis) -> None:
        """Show a network; keep typed text with the same value."""
        before, self._spec, self._analysis = self._spec.optimizer.kind, spec, analysis
        options = plain_options(NetworkSpec)
        self.network.show(options, {option.name: getattr(spec, option.name) for option in options})
        if len(spec.outputs) != len(self.outputs):
            numbers = range(len(spec.outputs))
            self.outputs = [OutputEditor(self, place, len(numbers)) for place in numbers]
            swap(self.outputs_box, *self.outputs)
        for editor, output in zip(self.outputs, spec.outputs, strict=True):
            editor.show(output, spec.task)
        name = spec.optimizer.kind
        kind = optimizer_kind(name)
        names = [each.name for each in optimizer_kinds()]
        chosen = _choice("optimizer", names, names[0])
        self.optimizer.show([chosen], {} if kind is None else {"optimizer": name})
        options = () if kind is None else kind.options
        self.settings.show(options, spec.optimizer.options, reset=before != name)
        self.advice.value = advice(kind.sentence if kind else "")
        if self.schedule.value != spec.optimizer.schedule:
            self.schedule.set(spec.optimizer.schedule)

    # --- user actions

    def change_outputs(self, place: int, what: str, field: str, *outputs: OutputSpec) -> None:
        before = self._spec.outputs
        changed = (*before[:place], *outputs, *before[place + 1 :])
        typing = f"output {place} {field}" if field else ""
        self._change(replace(self._spec, outputs=changed), what, typing)

    def _add_output(self) -> None:
        taken = {output.layer for output in self._spec.outputs}
        free = [name for name in self.layers if name not in taken]
        if free:
            added = self._usual(self._spec.task, free[-1])
            self.change_outputs(len(self._spec.outputs), "add an output", "", added)

    def _usual(self, task: Task, layer: str, weight: float = 1.0) -> OutputSpec:
        """An output with the default loss and metrics for the task and the layer's shape."""
        shapes = {row.name: row.output_shape for row in self._analysis.rows}
        usual = defaults_for(task, shapes.get(layer))
        return OutputSpec(layer=layer, loss=usual.loss, metrics=usual.metrics, weight=weight)

    def _network_changed(self, name: str) -> None:
        value = self.network.values[name]
        changed: dict[str, Any] = {name: value}
        if name == "task":
            outputs = self._spec.outputs
            changed["outputs"] = tuple(self._usual(value, o.layer, o.weight) for o in outputs)
        self._change(replace(self._spec, **changed), f"set {name}", f"network {name}")

    def _optimizer_chosen(self) -> None:
        kind = self.optimizer.values["optimizer"]
        optimizer = OptimizerSpec(kind=kind, schedule=self._spec.optimizer.schedule)
        self._change(replace(self._spec, optimizer=optimizer), f"use {kind}", "")

    def _setting_changed(self, name: str) -> None:
        kind = optimizer_kind(self._spec.optimizer.kind)
        if kind is not None:
            options = kind.tidy(self.settings.values)
            optimizer = replace(self._spec.optimizer, kind=kind.name, options=options)
            what = f"set {name} of the optimizer"
            self._change(replace(self._spec, optimizer=optimizer), what, f"optimizer {name}")

    def _schedule_changed(self, *path: str) -> None:
        if self.schedule.is_invalid:
            self.mistaken()
            return
        optimizer = replace(self._spec.optimizer, schedule=self.schedule.value)
        # Consecutive edits of one field are one undo step.
        typing = " ".join(path) if len(path) > 1 else ""
        self._change(replace(self._spec, optimizer=optimizer), "set the schedule", typing)


class OutputEditor(widgets.VBox):
    """Edits the `OutputSpec` at index `place` of `count`."""

    def __init__(self, training: TrainingEditor, place: int, count: int) -> None:
        self._training, self._several = training, count > 1
        self._output = OutputSpec(layer="-", loss="-")
        self._replace = partial(training.change_outputs, place)
        self.form = ValueForm(self._changed, training.mistaken)
        self.metrics = ValueForm(self._changed, training.mistaken)
        self.metrics.add_class("sparkwright-metrics")
        self.more = Dropdown(description="More metrics")
        self.more.observe(self._added, "value")
        number = f" {place + 1}" if self._several else ""
        self.remove_button = Button(description=f"Remove output{number}")
        self.remove_button.on_click(lambda _button: self._replace("remove an output", ""))
        self.remove_button.layout.display = None if self._several else "none"
        super().__init__(
            [
                *(widgets.HTML(f"<b>Output{number}</b>"), self.form),
                *(widgets.HTML(advice(_METRICS_NOTE)), self.metrics, row(self.more)),
                row(self.remove_button),
            ]
        )
        self.add_class("sparkwright-output")

    def show(self, output: OutputSpec, task: Task) -> None:
        """Show the current output, which may have changed elsewhere, such as by undo."""
        self._output = output
        losses, layers = losses_of(task), self._training.layers
        names = {"layer": layers, "loss": losses}
        options = [
            _choice(each.name, names[each.name], getattr(output, each.name), each.help)
            if each.name in names
            else each
            for each in plain_options(OutputSpec)
            if each.name in names or self._several
        ]
        self.form.show(options, {option.name: getattr(output, option.name) for option in options})
        loss = LOSSES.get(output.loss)
        self.form.fields["loss"].advice.value = advice(loss.sentence if loss else " ")
        offered = tuple(dict.fromkeys([*metrics_of(output.loss), *output.metrics]))
        if offered != tuple(self.metrics.fields):
            others = [name for name in names_of("metrics") if name not in offered]
            self.more.options = [("(add a Keras metric)", ""), *((name, name) for name in others)]
        chosen = {name: name in output.metrics for name in offered}
        self.metrics.show(tuple(map(_metric, offered)), chosen)

    def _added(self, change: Any) -> None:
        if change["new"]:
            metrics = (*self._output.metrics, change["new"])
            self._submit("metrics", metrics=metrics)

    def _changed(self, name: str) -> None:
        values = self.form.values
        chosen = tuple(metric for metric, is_on in self.metrics.values.items() if is_on)
        if name == "loss":
            fitting = metrics_of(values["loss"])
            chosen = tuple(name for name in chosen if name in fitting or name not in METRICS)
        self._submit(name, **values, metrics=chosen)

    def _submit(self, field: str, **values: Any) -> None:
        self._replace(f"set {field} of an output", field, replace(self._output, **values))


def _choice(name: str, names: Sequence[str], chosen: str, text: str = "") -> Option:
    """An option to choose one of `names`, or `chosen` if it is not among them."""
    choices = tuple(dict.fromkeys([*names, chosen]))
    return Option(name=name, kind="choice", default=choices[0], choices=choices, help=text)


def _metric(name: str) -> Option:
    kind = METRICS.get(name)
    label = re.sub("auc$", "AUC", name, flags=re.IGNORECASE).replace("_", " ")
    help = kind.sentence if kind else ""
    label = label[:1].upper() + label[1:]
    return Option(name=name, kind="flag", default=False, label=label, help=help)
