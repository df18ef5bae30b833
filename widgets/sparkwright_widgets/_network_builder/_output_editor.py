"""One output of the network: which layer it is, its loss, its metrics, and what is offered."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.networks import LOSSES, METRICS, OutputSpec, Task, defaults_for, optimizer_kind
from sparkwright.networks.keras_catalog import names_of
from sparkwright.options import Option
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, Dropdown, OptionForm, close_all, row


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


def loss_sentence(loss: str) -> str:
    """When to choose a loss; empty if it is not known."""
    kind = LOSSES.get(loss)
    return "" if kind is None else kind.sentence


def usual_output(task: Task, layer: str, shape: Sequence[int | None] | None) -> OutputSpec:
    """An output with the loss and the metrics that fit the task and the layer's shape."""
    usual = defaults_for(task, shape)
    return OutputSpec(layer=layer, loss=usual.loss, metrics=usual.metrics)


def optimizer_options(kind: str) -> tuple[tuple[Option, ...], str]:
    """The settings of an optimizer, and when to choose it; nothing of one that is not known."""
    known = optimizer_kind(kind)
    return ((), "") if known is None else (known.options, known.sentence)


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
            '<div class="sparkwright-advice">Metrics are shown beside the loss; training does not '
            "optimize them.</div>"
        )
        self.more = Dropdown(description="More metrics", style={"description_width": "initial"})
        self.more.observe(self._added, "value")
        parts: list[widgets.Widget] = [head, self.form, words, self.metrics_box, row(self.more)]
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
        others = [name for name in names_of("metrics") if name not in metrics]
        self.more.options = [("(add one of Keras)", ""), *((name, name) for name in others)]
        self.metrics = OptionForm([_metric(name) for name in metrics])
        self.metrics.add_class("sparkwright-metrics")
        self.metrics.on_change(self._heard)
        self.metrics_box.children = [self.metrics]
        close_all(old)

    def _added(self, change: Any) -> None:
        if change["new"]:
            output = replace(self._output, metrics=(*self._output.metrics, change["new"]))
            self._told(output, "metrics")

    def _heard(self, name: str) -> None:
        if name in self.form.problems:
            return
        values = self.form.values
        chosen = tuple(metric for metric, is_on in self.metrics.values.items() if is_on)
        if name == "loss":
            fitting = metrics_of(values["loss"])
            chosen = tuple(name for name in chosen if name in fitting or name not in METRICS)
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
