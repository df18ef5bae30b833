"""One output of the network: which layer it is, its loss, its metrics."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.networks import METRICS, OutputSpec
from sparkwright.options import Option
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, OptionForm, close_all, row

from ._training_choices import loss_sentence, metrics_of


class OutputEditor(widgets.VBox):
    """Edits an `OutputSpec`; its fields stay while what they offer stays.

    Args:
        output: the output.
        number: which one, from 1; 0: the only one.
        layers: names of the layers that may be the output.
        losses: Keras' names, the usual ones first.
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
        changed: Callable[[OutputSpec, str], None],
        removed: Callable[[], None],
    ) -> None:
        self._output, self._told = output, changed
        several = number > 0
        self.form = OptionForm(
            _options(output, layers, losses, several=several), _values(output, several=several)
        )
        self.form.on_change(self._heard)
        self.metrics = OptionForm(())
        self.metrics_box = widgets.VBox([self.metrics])
        title = f"Output {number}" if several else "Output"
        head = widgets.HTML(f"<b>{escaped(title)}</b>")
        words = widgets.HTML(
            '<div class="sparkwright-advice">Metrics are told beside the loss; training does not '
            "aim at them.</div>"
        )
        parts: list[widgets.Widget] = [head, self.form, words, self.metrics_box]
        if several:
            self.remove_button = Button(description=f"Remove output {number}")
            self.remove_button.on_click(lambda _button: removed())
            parts.append(row(self.remove_button))
        super().__init__(parts)
        self.add_class("sparkwright-output")
        self.follow(output)

    def follow(self, output: OutputSpec) -> None:
        """Show what the output has become, here or elsewhere, by undo for instance."""
        self._output = output
        for name, value in _values(output, several="weight" in self.form.fields).items():
            if self.form.fields[name].value != value:
                self.form.set({name: value})
        loss = self.form.fields["loss"]
        loss.advice.value = (
            f'<div class="sparkwright-advice">{escaped(loss_sentence(output.loss))}</div>'
        )
        offered = tuple(dict.fromkeys([*metrics_of(output.loss), *output.metrics]))
        if offered != tuple(self.metrics.fields):
            self._offer(offered)
        for name, field in self.metrics.fields.items():
            if field.value != (name in output.metrics):
                field.set(name in output.metrics)

    def _offer(self, metrics: Sequence[str]) -> None:
        old = self.metrics
        self.metrics = OptionForm([_metric(name) for name in metrics])
        self.metrics.add_class("sparkwright-metrics")
        self.metrics.on_change(self._heard)
        self.metrics_box.children = [self.metrics]
        close_all(old)

    def _heard(self, name: str) -> None:
        if name in self.form.problems:
            return
        values = self.form.values
        chosen = tuple(metric for metric, is_on in self.metrics.values.items() if is_on)
        if name == "loss":
            understood = metrics_of(values["loss"])
            chosen = tuple(metric for metric in chosen if metric in understood)
        self._told(replace(self._output, **values, metrics=chosen), name)


def _metric(name: str) -> Option:
    kind = METRICS.get(name)
    title, sentence = (kind.title, kind.sentence) if kind else (name, "")
    return Option(name=name, kind="flag", default=False, label=title, help=sentence)


def _options(
    output: OutputSpec, layers: Sequence[str], losses: Sequence[str], *, several: bool
) -> list[Option]:
    weight = Option(
        name="weight",
        kind="float",
        default=1.0,
        above=0,
        label="Weight of its loss",
        help="Against the losses of the other outputs; 1 is usual.",
    )
    return [
        Option(
            name="layer",
            kind="choice",
            label="Layer",
            choices=tuple(dict.fromkeys([*layers, output.layer])),
            help="Its result is compared with the labels.",
        ),
        Option(
            name="loss",
            kind="choice",
            label="Loss",
            choices=tuple(dict.fromkeys([*losses, output.loss])),
            help="What training makes smaller; the first ones are usual for the task.",
        ),
        *([weight] if several else []),
    ]


def _values(output: OutputSpec, *, several: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"layer": output.layer, "loss": output.loss}
    return {**values, "weight": output.weight} if several else values
