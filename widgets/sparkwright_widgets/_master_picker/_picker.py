"""TrainingMasterPicker: the widget. What it decides is decided in pure modules beside it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.networks import NetworkSpec
from sparkwright.workers._step_time import StepTime, measure_step
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import count_text, escaped, rate_text
from sparkwright_widgets._table import html_table
from sparkwright_widgets._ui import Button, Fold, OptionForm, Part, ToggleButtons, close_all, row

from ._draft import Draft, Path
from ._master_form import MasterForm
from ._master_text import MasterText
from ._outlook import Outlook, Surroundings
from ._words import ASSUMPTIONS, AVERAGING, SHARING, WHAT, WHERE


class TrainingMasterPicker(Part):
    """Every option of a training master, with advice, and what a run with it will look like.

    Attributes:
        master: the training master; while something is wrong, the last one that was right.
        parallel: whether it is for a `ParallelWrapper`, on this machine without Spark.
        problem: what is wrong, in one sentence; None: nothing.
        outlook: what is shown of the plan, as text.

    Args:
        master: what to begin with; default a ParameterAveragingTrainingMaster.
        parallel: default False: on Spark.

    Example:
        picker = TrainingMasterPicker()
        picker  # at the end of a cell
        picker.master
    """

    def __init__(self, master: TrainingMaster | None = None, *, parallel: bool = False) -> None:
        self._forms: dict[str, MasterForm] = {}  # first: one that is refused is closed too
        super().__init__("Training master", styles=("master_picker.css",))
        self._master: TrainingMaster = master or ParameterAveragingTrainingMaster()
        self._draft = Draft.of(self._master, parallel=parallel)
        self._before: dict[str, Mapping[str, Any]] = {}
        self._around = Surroundings(cores=os.cpu_count() or 1)
        self._network: Any = None
        self._measured: StepTime | None = None
        self._problem: str | None = None
        self._setting = False
        self._make()
        self._show_draft()

    # --- what is held

    @property
    def master(self) -> TrainingMaster:
        """The training master; while something is wrong, the last one that was right."""
        return self._master

    @master.setter
    def master(self, master: TrainingMaster) -> None:
        self._draft = Draft.of(master, parallel=self.parallel)
        self._show_draft()

    @property
    def parallel(self) -> bool:
        """Whether it is for a `ParallelWrapper`."""
        return self._draft.parallel

    @parallel.setter
    def parallel(self, parallel: bool) -> None:
        self._draft = replace(self._draft, parallel=bool(parallel))
        self._show_draft()

    @property
    def problem(self) -> str | None:
        """What is wrong, in one sentence; None: nothing."""
        return self._problem

    @property
    def outlook(self) -> str:
        """What is shown of the plan, as text."""
        return self._outlook().text()

    def set_context(
        self, rows: Sequence[int] | None = None, network: Any = None, slots: int | None = None
    ) -> None:
        """Say what the plan is about; None: not known.

        Args:
            rows: examples of each partition, or of each worker.
            network: a NetworkSpec or a built keras.Model.
            slots: tasks that Spark can run at once.
        """
        self._around = replace(
            self._around, rows=None if rows is None else tuple(rows), slots=slots
        )
        if network != self._network:
            self._forget_measurement()
            self._network = network
            self._around = self._around.with_network(network)
        self._show_outlook()

    def measure(self) -> None:
        """Time one minibatch of the network, in the background; fills in the field."""
        network, batch_size = self._network, self._draft.settings["batch_size_per_worker"]
        xla = self._draft.settings["xla"]

        def work() -> StepTime:
            model = network.build() if isinstance(network, NetworkSpec) else network
            return measure_step(model, batch_size, xla=xla)

        self.measure_button.disabled = True
        begun = self.in_background(
            "Measuring one step; TensorFlow's start, if need be, takes ten seconds more",
            work,
            self._take_measurement,
            finally_=self._offer_measuring,
        )
        if not begun:
            self._offer_measuring()

    def close(self) -> None:
        """Free the forms of both kinds; the box holds only those of the chosen one."""
        for form in self._forms.values():
            if form is not self.form:
                close_all(form.usual)
                for group in form.groups.values():
                    close_all(group)
        super().close()

    # --- making

    def _make(self) -> None:
        self.kind = ToggleButtons(
            options=[("Parameter averaging", AVERAGING), ("Gradient sharing", SHARING)],
            description="How workers agree",
            style={"description_width": "initial"},
        )
        self.place = ToggleButtons(
            options=[("On Spark", False), ("On this machine (ParallelWrapper)", True)],
            description="Where they run",
            style={"description_width": "initial"},
        )
        for toggle in (self.kind, self.place):
            toggle.add_class("sparkwright-choice-row")
        self.explanation = widgets.HTML()
        self.usual_box = widgets.VBox()
        self.group_box = widgets.VBox()
        self.whole_problem = widgets.HTML()
        self.plan = widgets.HTML()
        self.assumptions = OptionForm(ASSUMPTIONS)
        self.measure_button = Button(
            description="Measure one step", tooltip="Train a copy of the network for two seconds"
        )
        self.measure_reason = widgets.HTML()
        self.text = MasterText(self._take_text)
        self.text_fold = Fold("As YAML or JSON", [self.text])
        self.text_fold.button.on_click(lambda _button: self.text.wake())
        self.kind.observe(self.guarded(self._kind_chosen), "value")
        self.place.observe(self.guarded(self._place_chosen), "value")
        self.assumptions.on_change(self.guarded(self._assumed))
        self.measure_button.on_click(self.guarded(lambda _button: self.measure()))
        self.show(
            self.kind,
            self.place,
            self.explanation,
            self.usual_box,
            self.whole_problem,
            self.plan,
            self.assumptions,
            row(self.measure_button, self.measure_reason),
            self.group_box,
            self.text_fold,
        )

    # --- hearing

    def _kind_chosen(self, change: Any) -> None:
        if self._setting or change["new"] == self._draft.settings["name"]:
            return
        self._before[self._draft.settings["name"]] = self._draft.settings
        self._draft = self._draft.as_kind(change["new"], self._before.get(change["new"]))
        self._show_draft()
        self._changed()

    def _place_chosen(self, change: Any) -> None:
        if self._setting:
            return
        self._draft = replace(self._draft, parallel=change["new"])
        self._show_draft()
        self._changed()

    def _edited(self, path: Path, value: Any) -> None:
        before = (self._master, self._problem)
        if self._draft.value(path) != value:
            self._draft = self._draft.with_value(path, value)
            if path == ("batch_size_per_worker",):
                self._forget_measurement()
            form = self.form
            for group in form.groups.values():
                if len(path) == 1 and path[0] in group.nested:
                    group.nested[path[0]].show(self._draft)
        self._examine()
        if (self._master, self._problem) != before:
            self._changed()

    def _assumed(self, _name: str) -> None:
        values = self.assumptions.values
        step_ms = values["step_ms"]
        self._around = replace(
            self._around,
            step_s=None if step_ms is None else step_ms / 1000,
            bandwidth_bytes_per_s=values["bandwidth_gbit"] * 1.25e8,
        )
        self._show_outlook()

    def _take_text(self, master: TrainingMaster) -> None:
        hooks = self._draft.hooks
        self.master = master.with_hooks(*hooks) if hooks else master
        self._changed()

    def _take_measurement(self, found: StepTime) -> None:
        self._measured = found
        step_ms = float(f"{1000 * found.seconds:.4g}")
        self.assumptions.set({"step_ms": step_ms})
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

    @property
    def form(self) -> MasterForm:
        """The fields of the kind that is chosen."""
        name = self._draft.settings["name"]
        if name not in self._forms:
            self._forms[name] = MasterForm(self._draft, self.guarded(self._edited))
        return self._forms[name]

    def _show_draft(self) -> None:
        self._setting = True
        try:
            self.kind.value = self._draft.settings["name"]
            self.place.value = self._draft.parallel
        finally:
            self._setting = False
        form = self.form
        form.show(self._draft)
        self.usual_box.children = [form.usual]
        self.group_box.children = list(form.groups.values())
        self.explanation.value = (
            f'<div class="sparkwright-advice">{escaped(WHAT[self._draft.settings["name"]])} '
            f"{escaped(WHERE[self._draft.parallel])}</div>"
        )
        self._examine()

    def _examine(self) -> None:
        master, problems = self._draft.examined()
        form = self.form
        form.complain(self._draft, problems)
        problems = {**problems, **form.problems}
        self._problem = next(iter(problems.values()), None)
        if master is not None:
            self._master = master
            self.text.show(master)
        whole = problems.get((), "")
        self.whole_problem.value = (
            '<div class="sparkwright-problem" role="alert"><span aria-hidden="true">✕</span> '
            f"{escaped(whole)}</div>"
            if whole
            else ""
        )
        self._show_outlook()

    def _outlook(self) -> Outlook:
        found = self._around.prospect(self._master, parallel=self.parallel)
        if self.parallel:
            return Outlook.of(found, cores=self._around.cores)
        return Outlook.of(found, slots=self._around.slots)

    def _show_outlook(self) -> None:
        self.plan.value = self._outlook().html()
        self._offer_measuring()

    def _offer_measuring(self) -> None:
        reason = self._why_not_measured()
        self.measure_button.disabled = bool(reason)
        said = reason or self._measurement()
        self.measure_reason.value = f'<span class="sparkwright-advice">{escaped(said)}</span>'

    def _why_not_measured(self) -> str:
        if self._network is None:
            return "There is no network to measure yet."
        if self._around.vector_bytes is None:
            return "The network cannot be trained yet; see there."
        return "Its step is being measured." if self._background.busy else ""

    def _measurement(self) -> str:
        found = self._measured
        if found is None:
            return ""
        threads = "1 thread" if found.cores == 1 else f"{found.cores} threads"
        where = "a GPU" if found.device == "GPU" else f"the CPU, with {threads}"
        return (
            f"Measured here on {where}: {count_text(found.steps)} minibatches, "
            f"{rate_text(found.examples_per_s)} examples/s."
        )

    # --- what stays

    def _still(self) -> Block | None:
        kind = (
            "Gradient sharing"
            if self._draft.settings["name"] == SHARING
            else ("Parameter averaging")
        )
        where = "on this machine" if self.parallel else "on Spark"
        changed = self._draft.changed()
        rows = [[".".join(path), str(value)] for path, value in changed.items()]
        outlook = self._outlook()
        table = html_table(
            ["Option", "Value"],
            rows,
            label="Options that differ from their defaults",
            text_columns={1},
        )
        html = (
            f"<p><strong>{escaped(kind)} {where}.</strong> {count_text(len(rows))} options differ "
            f"from their defaults.</p>{table if rows else ''}{outlook.html()}"
        )
        lines = [f"{kind} {where}.", *(f"{name}: {value}" for name, value in rows)]
        return Block(html=html, text="\n".join([*lines, outlook.text()]), kind="master")
