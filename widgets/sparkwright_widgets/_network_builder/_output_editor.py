"""One output of the network: which layer it is, its loss, its metrics."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright._option import Option
from sparkwright.networks import OutputSpec
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, OptionForm


class OutputEditor(widgets.VBox):
    """Edits an `OutputSpec`; its fields stay while what they offer stays.

    Args:
        output: the output.
        number: which one, from 1; 0: the only one.
        layers: names of the layers that may be the output.
        losses: Keras' names, the usual ones first.
        metrics: Keras' names.
        changed: called with the output as it has become, and the field.
        removed: called when a person takes the output away.
    """

    def __init__(
        self,
        output: OutputSpec,
        *,
        number: int,
        layers: Sequence[str],
        losses: Sequence[str],
        metrics: Sequence[str],
        changed: Callable[[OutputSpec, str], None],
        removed: Callable[[], None],
    ) -> None:
        self._output, self._told = output, changed
        several = number > 0
        self.form = OptionForm(
            _options(output, layers, losses, several=several), _values(output, several)
        )
        self.form.on_change(self._heard)
        offered = tuple(dict.fromkeys([*metrics, *output.metrics]))
        self.metrics = OptionForm(
            [Option(name=name, kind="flag", default=False, label=name) for name in offered],
            {name: True for name in output.metrics},
        )
        self.metrics.add_class("sparkwright-metrics")
        self.metrics.on_change(self._heard)
        title = f"Output {number}" if several else "Output"
        head = widgets.HTML(f"<b>{escaped(title)}</b>")
        words = widgets.HTML(
            '<div class="sparkwright-advice">Metrics: told beside the loss, not trained for.</div>'
        )
        self.remove_button = Button(description=f"Remove output {number}")
        self.remove_button.on_click(lambda _button: removed())
        last = [self.remove_button] if several else []
        super().__init__([head, self.form, words, self.metrics, *last])
        self.add_class("sparkwright-output")

    def follow(self, output: OutputSpec) -> None:
        """Show what the output has become elsewhere, by undo for instance."""
        self._output = output
        for name, value in _values(output, "weight" in self.form.fields).items():
            if self.form.fields[name].value != value:
                self.form.set({name: value})
        for name, field in self.metrics.fields.items():
            if field.value != (name in output.metrics):
                field.set(name in output.metrics)

    def _heard(self, name: str) -> None:
        if name in self.form.problems:
            return
        values = self.form.values
        chosen = tuple(metric for metric, is_on in self.metrics.values.items() if is_on)
        self._output = replace(self._output, **values, metrics=chosen)
        self._told(self._output, name)


def _options(
    output: OutputSpec, layers: Sequence[str], losses: Sequence[str], *, several: bool
) -> list[Option]:
    weight = Option(
        name="weight",
        kind="float",
        default=1.0,
        above=0,
        label="Weight of its loss",
        advice="Against the losses of the other outputs; 1 is usual.",
    )
    return [
        Option(
            name="layer",
            kind="choice",
            label="Layer",
            choices=tuple(dict.fromkeys([*layers, output.layer])),
            advice="Its result is compared with the labels.",
        ),
        Option(
            name="loss",
            kind="choice",
            label="Loss",
            choices=tuple(dict.fromkeys([*losses, output.loss])),
            advice="What training makes smaller; the first ones are usual for the task.",
        ),
        *([weight] if several else []),
    ]


def _values(output: OutputSpec, several: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"layer": output.layer, "loss": output.loss}
    return {**values, "weight": output.weight} if several else values
