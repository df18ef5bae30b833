"""What the network is trained for and how: task, outputs, optimizer, seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as widgets

from sparkwright.configuration import plain_options
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
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, Dropdown, close_all, row

from ._value_form import ValueForm

_LABELS = {"name": "Name of the network"}
_HELP = {
    "task": "What the outputs mean. A change of the task takes its usual loss and metrics.",
    "name": "",
    "seed": "With a seed, the initial weights are the same each time.",
}
_METRICS_NOTE = "Metrics are shown beside the loss; training does not optimize them."


def losses_of(task: Task) -> tuple[str, ...]:
    """Names of all losses, those for `task` first.

    Example:
        >>> losses_of("regression")[:2]
        ('mean_squared_error', 'mean_absolute_error')
    """
    fitting = [name for name, loss in LOSSES.items() if loss.tasks and loss.tasks[0] == task]
    also = [name for name, loss in LOSSES.items() if task in loss.tasks]
    return tuple(dict.fromkeys([*fitting, *also, *LOSSES, *names_of("losses")]))


def metrics_of(loss: str) -> tuple[str, ...]:
    """Names of the common metrics that take the labels of a loss; all, if it is not known.

    Example:
        >>> metrics_of("sparse_categorical_crossentropy")[0]
        'accuracy'
    """
    kind = LOSSES.get(loss)
    return tuple(
        name for name, metric in METRICS.items() if kind is None or kind.labels in metric.labels
    )


class TrainingEditor(widgets.VBox):
    """Edits all of a network but its layers.

    Args:
        change: called with the network as it has become, what was done in a few words, and the
            field that was typed into.
        mistaken: called when a field has come to hold something invalid, or no longer does.
    """

    def __init__(
        self, change: Callable[[NetworkSpec, str, str], None], mistaken: Callable[[], None]
    ) -> None:
        self._change, self._mistaken = change, mistaken
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
        super().__init__(
            [
                *(self.network, self.outputs_box, row(self.add_button)),
                *(widgets.HTML("<b>Optimizer</b>"), self.optimizer, self.advice, self.settings),
            ]
        )
        self.add_class("sparkwright-training")

    @property
    def mistake(self) -> str:
        """What is wrong with a value that was typed and not taken; empty: nothing."""
        forms = (self.network, *(editor.form for editor in self.outputs), self.settings)
        return next((form.mistake for form in forms if form.mistake), "")

    def show(self, spec: NetworkSpec, analysis: NetworkAnalysis) -> None:
        """Show a network; what is being typed into the fields stays if it means the same."""
        before, self._spec, self._analysis = self._spec, spec, analysis
        values = {name: getattr(spec, name) for name in ("task", "name", "seed")}
        self.network.show(_network_options(), values)
        self._show_outputs()
        now = spec.optimizer
        kind = optimizer_kind(now.kind)
        names = tuple(kind.name for kind in optimizer_kinds())
        chosen = Option(
            name="optimizer", kind="choice", choices=names, default="Adam", label="Kind"
        )
        self.optimizer.show((chosen,), {"optimizer": now.kind} if kind is not None else {})
        is_new = before.optimizer.kind != now.kind
        self.settings.show(kind.options if kind else (), now.options, anew=is_new)
        self.advice.value = _advice(kind.sentence if kind else "")

    # --- outputs

    def _show_outputs(self) -> None:
        outputs = self._spec.outputs
        if len(outputs) != len(self.outputs):
            before = self.outputs
            self.outputs = [
                OutputEditor(
                    number=place + 1 if len(outputs) > 1 else 0,
                    changed=partial(self._output_changed, place),
                    removed=partial(self._remove_output, place),
                    mistaken=self._mistaken,
                )
                for place in range(len(outputs))
            ]
            self.outputs_box.children = self.outputs
            for editor in before:
                close_all(editor)
        layers = tuple(row.name for row in self._analysis.rows if row.enabled)
        losses = losses_of(self._spec.task)
        for editor, output in zip(self.outputs, outputs, strict=True):
            editor.show(output, layers=layers, losses=losses)

    def _output_changed(self, place: int, output: OutputSpec, field: str) -> None:
        outputs = list(self._spec.outputs)
        outputs[place] = output
        what = f"set {field} of an output"
        self._change(replace(self._spec, outputs=tuple(outputs)), what, f"output {place} {field}")

    def _add_output(self) -> None:
        taken = {output.layer for output in self._spec.outputs}
        rows = [row for row in self._analysis.rows if row.enabled and row.kind != "Input"]
        free = [row for row in rows if row.name not in taken]
        if free:
            output = self._usual(self._spec.task, free[-1].name)
            outputs = (*self._spec.outputs, output)
            self._change(replace(self._spec, outputs=outputs), "add an output", "")

    def _remove_output(self, place: int) -> None:
        outputs = tuple(o for number, o in enumerate(self._spec.outputs) if number != place)
        self._change(replace(self._spec, outputs=outputs), "remove an output", "")

    def _usual(self, task: Task, layer: str, weight: float = 1.0) -> OutputSpec:
        """An output with the loss and the metrics that fit the task and the layer's shape."""
        shapes = {row.name: row.output_shape for row in self._analysis.rows}
        usual = defaults_for(task, shapes.get(layer))
        return OutputSpec(layer=layer, loss=usual.loss, metrics=usual.metrics, weight=weight)

    # --- network and optimizer

    def _network_changed(self, name: str) -> None:
        value = self.network.values[name]
        spec = replace(self._spec, **{name: value})
        if name == "task":
            outputs = (self._usual(value, o.layer, o.weight) for o in spec.outputs)
            spec = replace(spec, outputs=tuple(outputs))
        self._change(spec, f"set {name}", f"network {name}")

    def _optimizer_chosen(self) -> None:
        kind = self.optimizer.values["optimizer"]
        self._change(replace(self._spec, optimizer=OptimizerSpec(kind=kind)), f"take {kind}", "")

    def _setting_changed(self, name: str) -> None:
        kind = optimizer_kind(self._spec.optimizer.kind)
        if kind is not None:
            optimizer = OptimizerSpec(kind=kind.name, options=kind.tidy(self.settings.values))
            what = f"set {name} of the optimizer"
            self._change(replace(self._spec, optimizer=optimizer), what, f"optimizer {name}")


class OutputEditor(widgets.VBox):
    """Edits an `OutputSpec`.

    Args:
        number: which one, from 1; 0: the only one.
        changed: called with the output as it has become, and the field.
        removed: called when a person takes the output away.
        mistaken: called when a field has come to hold something invalid, or no longer does.
    """

    def __init__(
        self,
        *,
        number: int,
        changed: Callable[[OutputSpec, str], None],
        removed: Callable[[], None],
        mistaken: Callable[[], None],
    ) -> None:
        self._output = OutputSpec(layer="-", loss="-")
        self._told, self._several = changed, number > 0
        self.form = ValueForm(self._changed, mistaken)
        self.metrics = ValueForm(self._changed, mistaken)
        self.metrics.add_class("sparkwright-metrics")
        self.more = Dropdown(description="More metrics", style={"description_width": "initial"})
        self.more.observe(self._added, "value")
        title = f"Output {number}" if self._several else "Output"
        parts: list[widgets.Widget] = [
            *(widgets.HTML(f"<b>{title}</b>"), self.form),
            *(widgets.HTML(_advice(_METRICS_NOTE)), self.metrics, row(self.more)),
        ]
        if self._several:
            self.remove_button = Button(description=f"Remove output {number}")
            self.remove_button.on_click(lambda _button: removed())
            parts.append(row(self.remove_button))
        super().__init__(parts)
        self.add_class("sparkwright-output")

    def show(self, output: OutputSpec, *, layers: Sequence[str], losses: Sequence[str]) -> None:
        """Show the output.

        Args:
            output: as it has become, here or elsewhere, by undo for instance.
            layers: names of the layers that may be the output.
            losses: Keras' names, the usual ones first.
        """
        self._output = output
        values = {"layer": output.layer, "loss": output.loss, "weight": output.weight}
        self.form.show(tuple(self._options(output, layers, losses)), values)
        loss = LOSSES.get(output.loss)
        self.form.fields["loss"].advice.value = _advice(loss.sentence if loss else "", keep=True)
        offered = tuple(dict.fromkeys([*metrics_of(output.loss), *output.metrics]))
        if offered != tuple(self.metrics.fields):
            others = [name for name in names_of("metrics") if name not in offered]
            self.more.options = [("(add one of Keras)", ""), *((name, name) for name in others)]
        chosen = {name: name in output.metrics for name in offered}
        self.metrics.show(tuple(map(_metric, offered)), chosen)

    def _options(
        self, output: OutputSpec, layers: Sequence[str], losses: Sequence[str]
    ) -> Iterator[Option]:
        names = tuple(dict.fromkeys([*layers, output.layer]))
        yield Option(
            name="layer",
            kind="choice",
            default=names[0],
            choices=names,
            help="Its result is compared with the labels.",
        )
        yield Option(
            name="loss",
            kind="choice",
            default=losses[0],
            choices=tuple(dict.fromkeys([*losses, output.loss])),
            help="What training makes smaller; the first ones are usual for the task.",
        )
        if self._several:
            yield Option(
                name="weight",
                kind="float",
                default=1.0,
                above=0,
                label="Weight of its loss",
                help="Against the losses of the other outputs; 1 is usual.",
            )

    def _added(self, change: Any) -> None:
        if change["new"]:
            output = replace(self._output, metrics=(*self._output.metrics, change["new"]))
            self._told(output, "metrics")

    def _changed(self, name: str) -> None:
        values = self.form.values
        chosen = tuple(metric for metric, is_on in self.metrics.values.items() if is_on)
        if name == "loss":
            fitting = metrics_of(values["loss"])
            chosen = tuple(name for name in chosen if name in fitting or name not in METRICS)
        self._told(replace(self._output, **values, metrics=chosen), name)


def _network_options() -> tuple[Option, ...]:
    declared = {option.name: option for option in plain_options(NetworkSpec)}
    return tuple(
        replace(declared[name], help=text, label=_LABELS.get(name, ""))
        for name, text in _HELP.items()
    )


def _metric(name: str) -> Option:
    kind = METRICS.get(name)
    title, sentence = (kind.title, kind.sentence) if kind else (name, "")
    return Option(name=name, kind="flag", default=False, label=title, help=sentence)


def _advice(sentence: str, *, keep: bool = False) -> str:
    if not sentence and not keep:
        return ""
    return f'<div class="sparkwright-advice">{escaped(sentence)}</div>'
