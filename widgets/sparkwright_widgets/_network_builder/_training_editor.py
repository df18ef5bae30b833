"""What the network is trained for and how: task, outputs, optimizer, seed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import ipywidgets as widgets

from sparkwright.networks import (
    NetworkAnalysis,
    NetworkSpec,
    OptimizerSpec,
    OutputSpec,
    Task,
    optimizer_kind,
    optimizer_kinds,
)
from sparkwright.options import Option
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, OptionForm, close_all, row

from ._layer_editor import as_json, fill, same_value
from ._output_editor import OutputEditor, losses_of, optimizer_options, usual_output

_NETWORK = (
    Option(
        name="task",
        kind="choice",
        choices=get_args(Task),
        default="classification",
        help="What the outputs mean. A change of the task takes its usual loss and metrics.",
    ),
    Option(name="name", kind="text", label="Name of the network", default="network"),
    Option(
        name="seed",
        kind="int",
        minimum=0,
        optional=True,
        default=42,
        none_text="new weights each time",
        help="With a seed, the initial weights are the same each time.",
    ),
)


class TrainingEditor(widgets.VBox):
    """Edits all of a network but its layers.

    Args:
        change: called with the network as it has become, what was done in a few words, and the
            field that was typed into.
    """

    def __init__(self, change: Callable[[NetworkSpec, str, str], None]) -> None:
        self._change = change
        self._spec = NetworkSpec()
        self._analysis = NetworkAnalysis(rows=())
        self._made_of: tuple[Any, ...] = ()
        self.network = OptionForm(_NETWORK)
        self.network.on_change(self._network_heard)
        self.outputs: list[OutputEditor] = []
        self.outputs_box = widgets.VBox()
        self.add_button = Button(description="Add an output")
        self.add_button.on_click(lambda _button: self._add_output())
        self.optimizer = OptionForm(
            [
                Option(
                    name="optimizer",
                    kind="choice",
                    choices=tuple(kind.name for kind in optimizer_kinds()),
                    default="Adam",
                    label="Kind",
                )
            ]
        )
        self.optimizer.on_change(lambda _name: self._optimizer_chosen())
        self.settings: OptionForm | None = None
        self._wrong: dict[str, Any] = {}  # settings that no field can hold
        self.settings_box = widgets.VBox()
        self.advice = widgets.HTML()
        super().__init__(
            [
                *(self.network, self.outputs_box, row(self.add_button)),
                *(widgets.HTML("<b>Optimizer</b>"), self.optimizer, self.advice),
                self.settings_box,
            ]
        )
        self.add_class("sparkwright-training")

    @property
    def mistake(self) -> str:
        """What is wrong with a value that was typed and not taken; empty: nothing."""
        forms = [self.network, *(editor.form for editor in self.outputs)]
        if self.settings is not None:
            forms.append(self.settings)
        return next((text for form in forms for text in form.problems.values()), "")

    def show(self, spec: NetworkSpec, analysis: NetworkAnalysis) -> None:
        """Show a network; what is being typed into the fields stays if it means the same."""
        before, self._spec, self._analysis = self._spec, spec, analysis
        for name in ("task", "name", "seed"):
            value = getattr(spec, name)
            if self.network.fields[name].value != value:
                self.network.set({name: value})
        self._show_outputs()
        self._show_optimizer(before.optimizer)

    # --- outputs

    def _show_outputs(self) -> None:
        spec = self._spec
        layers = tuple(row.name for row in self._analysis.rows if row.enabled)
        offered = {*layers, *losses_of(spec.task)}
        others = [{output.layer, output.loss} - offered for output in spec.outputs]
        made_of = (layers, spec.task, others)
        if made_of != self._made_of:
            self._made_of = made_of
            before = self.outputs
            self.outputs = [self._editor(place, layers) for place in range(len(spec.outputs))]
            self.outputs_box.children = self.outputs
            for editor in before:
                close_all(editor)
        for editor, output in zip(self.outputs, spec.outputs, strict=True):
            editor.follow(output)

    def _editor(self, place: int, layers: Sequence[str]) -> OutputEditor:
        several = len(self._spec.outputs) > 1
        return OutputEditor(
            self._spec.outputs[place],
            number=place + 1 if several else 0,
            layers=layers,
            losses=losses_of(self._spec.task),
            changed=lambda output, field: self._output_heard(place, output, field),
            removed=lambda: self._remove_output(place),
        )

    def _output_heard(self, place: int, output: OutputSpec, field: str) -> None:
        outputs = list(self._spec.outputs)
        outputs[place] = output
        what = f"set {field} of an output"
        self._change(replace(self._spec, outputs=tuple(outputs)), what, f"output {place} {field}")

    def _add_output(self) -> None:
        taken = {output.layer for output in self._spec.outputs}
        rows = [row for row in self._analysis.rows if row.enabled and row.kind != "Input"]
        free = [row for row in rows if row.name not in taken]
        if not free:
            return
        output = usual_output(self._spec.task, free[-1].name, free[-1].output_shape)
        self._change(
            replace(self._spec, outputs=(*self._spec.outputs, output)), "add an output", ""
        )

    def _remove_output(self, place: int) -> None:
        outputs = tuple(o for number, o in enumerate(self._spec.outputs) if number != place)
        self._change(replace(self._spec, outputs=outputs), "remove an output", "")

    # --- network and optimizer

    def _network_heard(self, name: str) -> None:
        if name in self.network.problems:
            return
        value = self.network.values[name]
        spec = replace(self._spec, **{name: value})
        if name == "task":
            shapes = {row.name: row.output_shape for row in self._analysis.rows}
            outputs = [
                replace(
                    usual_output(value, output.layer, shapes.get(output.layer)),
                    weight=output.weight,
                )
                for output in spec.outputs
            ]
            spec = replace(spec, outputs=tuple(outputs))
        self._change(spec, f"set {name}", f"network {name}")

    def _optimizer_chosen(self) -> None:
        kind = self.optimizer.values["optimizer"]
        self._change(replace(self._spec, optimizer=OptimizerSpec(kind=kind)), f"take {kind}", "")

    def _show_optimizer(self, before: OptimizerSpec) -> None:
        now = self._spec.optimizer
        options, sentence = optimizer_options(now.kind)
        if self.optimizer.values["optimizer"] != now.kind and optimizer_kind(now.kind) is not None:
            self.optimizer.set({"optimizer": now.kind})
        if self.settings is None or before.kind != now.kind:
            old, self.settings = self.settings, OptionForm(options)
            self._wrong = fill(self.settings, now.options)
            self.settings.on_change(self._setting_heard)
            self.settings_box.children = [self.settings]
            if old is not None:
                close_all(old)
            self.advice.value = (
                f'<div class="sparkwright-advice">{escaped(sentence)}</div>' if sentence else ""
            )
        for name, field in self.settings.fields.items():
            value = now.options.get(name, field.option.default)
            if name not in self._wrong and not same_value(field.value, value):
                field.set(value)

    def _setting_heard(self, name: str) -> None:
        if self.settings is None or name in self.settings.problems:
            return
        self._wrong.pop(name, None)
        options = {key: as_json(value) for key, value in self.settings.changed_values.items()}
        optimizer = replace(self._spec.optimizer, options={**options, **self._wrong})
        what = f"set {name} of the optimizer"
        self._change(replace(self._spec, optimizer=optimizer), what, f"optimizer {name}")
