"""TrainingMasterPicker: the options of a training master, and a forecast of the run."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.configuration import plain_options
from sparkwright.errors import ConfigurationError
from sparkwright.local import check_local
from sparkwright.masters import (
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    TrainingMaster,
)
from sparkwright.networks import NetworkSpec
from sparkwright.workers.step_time import StepTime, measure_step
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block, facts_block, joined
from sparkwright_widgets._format import count_text, counted, escaped, rate_text
from sparkwright_widgets._ui import (
    ConfigurationForm,
    Fold,
    OptionForm,
    Part,
    Path,
    TextEditor,
    ToggleButtons,
    advice,
    changed_options,
    close_all,
    row,
    swap,
    values_of,
)

from ._forecast_section import (
    ASSUMPTIONS,
    ForecastSection,
    Surroundings,
    remark_html,
    slots_problem,
)
from ._remarks import Remark, Remedy, remedies

KINDS: dict[str, tuple[type[TrainingMaster], str]] = {
    "Parameter averaging": (
        ParameterAveragingTrainingMaster,
        "Each worker trains a copy of the network on its own data. Every few minibatches the "
        "copies are averaged. With a seed, runs are reproducible.",
    ),
    "Gradient sharing": (
        SharedTrainingMaster,
        "Each worker sends compressed updates to the other workers every one or few minibatches. "
        "Workers do not wait for each other. Results differ slightly between runs.",
    ),
}
_TITLES = {kind: title for title, (kind, _) in KINDS.items()}
_PLACES = {
    False: "Workers are Spark tasks on any number of machines.",
    True: "Workers are processes on this machine, without Spark. Choose this if one machine is "
    "enough.",
}


class TrainingMasterPicker(Part):
    """A form of all options of a training master, with advice and a forecast of the run.

    Attributes:
        master: the training master; while an option is invalid, the most recent valid one.
        parallel: whether to use a `ParallelWrapper`, on this machine without Spark.

    Example:
        picker = TrainingMasterPicker()
        picker  # at the end of a cell
        picker.master
    """

    def __init__(self, master: TrainingMaster | None = None, *, parallel: bool = False) -> None:
        self._forms: dict[type[TrainingMaster], ConfigurationForm[Any]] = {}
        super().__init__("Training master", styles=("pair.css", "master_picker.css"))
        self._master = _checked(master or ParameterAveragingTrainingMaster())
        self._parallel = parallel
        self._around = Surroundings(cores=os.cpu_count() or 1)
        self._network: Any = None
        self._measured: StepTime | None = None
        self._seed: int | None = None
        self._kind: type[TrainingMaster] = type(self._master)
        self.kind = ToggleButtons(
            options=[(title, kind) for title, (kind, _) in KINDS.items()],
            description="How workers are synchronized",
        )
        self.place = ToggleButtons(
            options=[("On Spark", False), ("On this machine (ParallelWrapper)", True)],
            description="Where workers run",
        )
        for toggle in (self.kind, self.place):
            toggle.add_class("sparkwright-choice-row")
        self.kind.observe(self.guarded(self._kind_chosen), "value")
        self.place.observe(self.guarded(self._place_chosen), "value")
        self.explanation = widgets.HTML()
        self.form_box = widgets.VBox()
        self.plan = widgets.HTML()
        self.notes_box = widgets.VBox(_dom_classes=["sparkwright-notes"])
        self._noted: list[tuple[Remark, tuple[Remedy, ...]]] = []
        self.assumptions = OptionForm(ASSUMPTIONS)
        self.assumptions.on_change(self.guarded(self._assumed))
        self.measure_button = self.new_button(
            "Measure one step", self.measure, "Train a copy of the network for two seconds"
        )
        self.measure_reason = widgets.HTML()
        self.recommend_button = self.new_button(
            "Use the recommended settings",
            self.use_recommended,
            "Apply the recommended settings",
        )
        self.text = TextEditor("Training master", self._write, self._take_text)
        self.text_fold = Fold("As YAML or JSON", [self.text])
        self.text_fold.button.on_click(lambda _button: self.text.follow())
        picture = widgets.VBox(
            [
                *(self.plan, self.notes_box, self.recommend_button, self.assumptions),
                row(self.measure_button, self.measure_reason),
            ]
        )
        pair = widgets.Box([picture, self.form_box], _dom_classes=["sparkwright-pair"])
        choices = row(self.kind, self.place)
        pairs = widgets.VBox([pair], _dom_classes=["sparkwright-pairs"])
        self.show(choices, self.explanation, pairs, self.text_fold)
        self._use(type(self._master), values_of(self._master))

    # --- value

    @property
    def master(self) -> TrainingMaster:
        """The training master; while an option is invalid, the most recent valid one."""
        return self._master

    @master.setter
    def master(self, master: TrainingMaster) -> None:
        self._use(type(_checked(master)), values_of(master))

    @property
    def parallel(self) -> bool:
        """Whether to use a `ParallelWrapper`."""
        return self._parallel

    @parallel.setter
    def parallel(self, parallel: bool) -> None:
        self._parallel = bool(parallel)
        self._use(self._kind, self.form.values)

    @property
    def problem(self) -> str | None:
        """The first problem, in one sentence; None if there is none."""
        return self.form.problem or self._slots_problem or None

    @property
    def _slots_problem(self) -> str:
        return slots_problem(self._master, self._around.slots, parallel=self._parallel)

    @property
    def forecast(self) -> str:
        """The forecast as text."""
        return self._forecast().text()

    @property
    def form(self) -> ConfigurationForm[Any]:
        """The form of the current kind."""
        return self._forms[self._kind]

    def set_context(
        self,
        rows: Sequence[int] | None = None,
        network: Any = None,
        slots: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Set the context of the forecast; None: unknown.

        Args:
            rows: number of examples of each partition, or of each worker.
            network: a NetworkSpec or a built keras.Model.
            slots: number of concurrent Spark tasks; more workers are a problem.
            seed: seed of the experiment, used if the master has none.
        """
        self._seed = seed
        for form in self._forms.values():
            form.set_none_text("seed", self._seed_text)
        self._around = replace(
            self._around, rows=None if rows is None else tuple(rows), slots=slots
        )
        if network != self._network:
            self._forget_measurement()
            self._network = network
            self._around = self._around.with_network(network)
        self._show_forecast()
        self._show_slots_problem()

    def measure(self) -> None:
        """Measure the time per minibatch in the background and fill in the field."""
        network, values = self._network, self.form.values

        def work() -> StepTime:
            model = network.build() if isinstance(network, NetworkSpec) else network
            return measure_step(model, values["batch_size_per_worker"], xla=values["xla"])

        self.measure_button.disabled = True
        begun = self.in_background(
            "Measuring one step. Starting TensorFlow can take another ten seconds",
            work,
            self._take_measurement,
            finally_=self._offer_measuring,
        )
        if not begun:
            self._offer_measuring()

    def use_recommended(self) -> None:
        """Set the recommended training master, if there is advice."""
        if (found := self._forecast().found) is not None:
            self._take_master(found.master)

    def _take_master(self, master: TrainingMaster) -> None:
        self.master = master
        self._changed()

    def close(self) -> None:
        """Close all widgets, including the form of the other kind."""
        for kind, form in self._forms.items():
            if kind is not self._kind:
                close_all(form)
        super().close()

    # --- callbacks

    def _kind_chosen(self, change: Any) -> None:
        if change["new"] is self._kind:
            return
        known, held = self._forms.get(change["new"]), self.form.values
        base = values_of(change["new"]()) if known is None else known.values
        # Keep the values of shared options, except choices that the new kind lacks.
        choices = {each.name: each.choices for each in plain_options(change["new"])}
        shared = {
            name: held[name]
            for name in base
            if name in held and (not choices.get(name) or held[name] in (None, *choices[name]))
        }
        self._use(change["new"], {**base, **shared})
        self._changed()

    def _place_chosen(self, change: Any) -> None:
        if change["new"] != self._parallel:
            self.parallel = change["new"]
            self._changed()

    def _edited(self, _path: Path) -> None:
        before = (self._master, self._known_problem)
        batch_size = self.form.values["batch_size_per_worker"]
        if self._measured is not None and batch_size != self._measured.batch_size:
            self._forget_measurement()
        self._take()
        if (self._master, self._known_problem) != before:
            self._changed()

    def _assumed(self, _name: str) -> None:
        values = self.assumptions.values
        step_ms = values["step_ms"]
        self._around = replace(
            self._around,
            step_s=None if step_ms is None else step_ms / 1000,
            bandwidth_bytes_per_s=values["bandwidth_gbit"] * 1.25e8,
        )
        self._show_forecast()

    def _write(self, form: str) -> str:
        return self._master.to_json() if form == "json" else self._master.to_yaml()

    def _take_text(self, text: str, form: str) -> bool:
        read = TrainingMaster.from_json if form == "json" else TrainingMaster.from_yaml
        master = read(text)
        hooks = self._master.hooks
        self.master = master.with_hooks(*hooks) if hooks else master
        self._changed()
        return True

    def _take_measurement(self, found: StepTime) -> None:
        self._measured = found
        self.assumptions.set({"step_ms": float(f"{1000 * found.seconds:.4g}")})
        self._around = replace(
            self._around,
            vector_bytes=found.vector_bytes,
            updater_bytes=found.updater_bytes,
        )
        self._assumed("step_ms")

    def _forget_measurement(self) -> None:
        if self._measured is None:
            return
        self._measured = None
        self.assumptions.set({"step_ms": None})
        self._around = replace(self._around, step_s=None)

    # --- showing

    def _use(self, kind: type[TrainingMaster], values: Mapping[str, Any]) -> None:
        self._kind = kind
        self.kind.value, self.place.value = kind, self._parallel
        if kind not in self._forms:
            form = ConfigurationForm(kind(), check=self._check)
            form.on_change(self.guarded(self._edited))
            form.set_none_text("seed", self._seed_text)
            self._forms[kind] = form
        self.form.show(values)
        self.form_box.children = [self.form]
        kind_text = KINDS[_TITLES[kind]][1]
        self.explanation.value = advice(f"{kind_text} {_PLACES[self._parallel]}")
        self._take()

    def _check(self, master: TrainingMaster) -> None:
        if self._parallel:
            check_local(master)

    def _take(self) -> None:
        """Apply the values of the form."""
        if self.form.valid is not None:
            self._master = self.form.valid
            if self.text_fold.opened:
                self.text.follow()
        self._known_problem = self.problem
        self._show_forecast()
        self._show_slots_problem()

    def _show_slots_problem(self) -> None:
        """Show at the field `workers` whether they exceed the task slots."""
        sentence = self._slots_problem
        if self.form.valid is not None and (sentence or "workers" in self.form.names):
            self.form.field("workers").complain(sentence)

    @property
    def _seed_text(self) -> str | None:
        return None if self._seed is None else f"the experiment's: {self._seed}"

    def _forecast(self, master: TrainingMaster | None = None) -> ForecastSection:
        """The forecast of `master`; default: the current training master."""
        chosen, around = master or self._master, self._around
        return ForecastSection(
            found=around.advice(chosen, parallel=self.parallel),
            slots=None if self.parallel else around.slots,
            cores=around.cores if self.parallel else None,
        )

    def _show_forecast(self) -> None:
        forecast = self._forecast()
        self.plan.value = forecast.html(with_remarks=False)
        self._show_notes(forecast.remarks)
        is_better = forecast.found is not None and forecast.found.recommended != 0
        self.recommend_button.disabled = not is_better
        self.recommend_button.layout.display = None if is_better else "none"
        self._offer_measuring()

    def _show_notes(self, remarks: Sequence[Remark]) -> None:
        """Show remarks, each with buttons that apply its remedies."""

        def expect(master: TrainingMaster) -> list[Remark]:
            self._check(master)
            return list(self._forecast(master).remarks)

        noted = [(remark, remedies(remark, self._master, expect)) for remark in remarks]
        if noted == self._noted:
            return
        self._noted = noted
        swap(self.notes_box, *(self._note(*each) for each in noted))

    def _note(self, remark: Remark, offered: Sequence[Remedy]) -> widgets.Widget:
        buttons = [
            self.new_button(remedy.label, lambda master=remedy.master: self._take_master(master))
            for remedy in offered
        ]
        box = row(widgets.HTML(remark_html(remark)), *buttons)
        box.add_class("sparkwright-alert").add_class("sparkwright-is-warning")
        return box

    def _offer_measuring(self) -> None:
        reason = self._why_not_measured()
        self.measure_button.disabled = bool(reason)
        text = escaped(reason or self._measurement())
        self.measure_reason.value = f'<span class="sparkwright-advice">{text}</span>'

    def _why_not_measured(self) -> str:
        if self._network is None:
            return "Choose a network to measure first."
        if self._around.vector_bytes is None:
            return "The network has a problem and cannot be trained yet."
        return "The step is being measured." if self._background.busy else ""

    def _measurement(self) -> str:
        found = self._measured
        if found is None:
            return ""
        threads = counted(found.cores, "thread")
        where = "a GPU" if found.device == "GPU" else f"the CPU, with {threads}"
        return (
            f"Measured here on {where}: {count_text(found.steps)} minibatches, "
            f"{rate_text(found.examples_per_s)} examples/s."
        )

    def _still(self) -> Block | None:
        where = "on this machine" if self.parallel else "on Spark"
        kind = f"{_TITLES[self._kind]} {where}."
        changed = changed_options(self._kind, self.form.values)
        rows = [(".".join(path), str(value)) for path, value in changed.items()]
        forecast = self._forecast()
        heading = (
            f"<style>{asset('master_picker.css')}</style><p><strong>{escaped(kind)}</strong> "
            f"{count_text(len(rows))} options differ from their defaults.</p>"
        )
        return joined(
            "master",
            Block(html=heading, text=kind, kind="heading"),
            *([facts_block(rows, label="Options that differ from their defaults")] if rows else []),
            Block(html=forecast.html(), text=forecast.text(), kind="forecast"),
        )


def _checked(master: TrainingMaster) -> TrainingMaster:
    if type(master) not in _TITLES:
        names = " or a ".join(kind.__name__ for kind in _TITLES)
        raise ConfigurationError(
            f"`master` must be a {names}. Received: {type(master).__name__}. Use other classes "
            "without the picker."
        )
    return master
