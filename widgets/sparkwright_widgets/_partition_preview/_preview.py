"""PartitionPreview: cost and effect of a repartition, computed before moving data."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.data import DistributedDataSet
from sparkwright.errors import DataError
from sparkwright.partitions import (
    PartitionForecast,
    PartitionSurvey,
    RepartitionMode,
    RepartitionStrategy,
    advice_on,
    recommended,
)
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import ConfigurationForm, Part, Path

from . import _texts as texts
from ._choice import CHOSEN, CHOSEN_ALONE, Choice


class PartitionPreview(Part):
    """Shows rows and labels of each partition now, and of each worker after a repartition.

    The forecast is computed from counts; no data moves. If the rows of `data` are already counted,
    they are shown immediately.

    Args:
        data: a `DistributedDataSet`, a `PartitionSurvey`, or the number of rows of each
            partition; default None: set `data` later.
        workers: number of workers; default 2.
        batch_size: rows per minibatch and worker; default 32.
        mode: when to repartition; default "always".
        strategy: how to repartition; default "balanced".
        embedded: whether workers and batch size have no fields and are set by `set_context`;
            default False.
    """

    def __init__(
        self,
        data: "DistributedDataSet | PartitionSurvey | Sequence[int] | None" = None,
        *,
        workers: int = 2,
        batch_size: int = 32,
        mode: RepartitionMode = "always",
        strategy: RepartitionStrategy = "balanced",
        embedded: bool = False,
    ) -> None:
        super().__init__("Partitions", styles=("pair.css", "partition_preview.css"))
        self._data: DistributedDataSet | None = None
        self._survey: PartitionSurvey | None = None
        self._forecasts: tuple[PartitionForecast, ...] = ()
        self._forecast: PartitionForecast | None = None
        self._stale = False
        # Several threads run callbacks and work. The lock keeps survey, choice and forecasts
        # consistent, and lets the last drawing win.
        self._lock = threading.RLock()
        self._choice = Choice(mode=mode, strategy=strategy, workers=workers, batch_size=batch_size)
        self._names = CHOSEN if embedded else CHOSEN_ALONE
        self.form = ConfigurationForm(self._choice, names=self._names)
        self.form.on_change(self.guarded(self._chosen))
        self.count_button = self.new_button("Count rows and labels", self.count)
        self.reason = widgets.HTML()
        self.notes = widgets.HTML()
        self.figures = widgets.HTML()
        self.advised_button = self.new_button(
            "", self.use_advised, "Apply the recommended repartition"
        )
        self.pictures = widgets.HTML()
        self.tables = widgets.HTML()
        picture = widgets.VBox([self.pictures, self.figures, self.advised_button])
        form = widgets.VBox([self.form, self.count_button, self.reason, self.notes])
        pair = widgets.Box([picture, form], _dom_classes=["sparkwright-pair"])
        self.show(widgets.VBox([pair], _dom_classes=["sparkwright-pairs"]), self.tables)
        self._take(data)
        self._refresh()

    # --- value

    @property
    def data(self) -> DistributedDataSet | None:
        """The data; None if it is not set or only counts are known."""
        return self._data

    @data.setter
    def data(self, data: "DistributedDataSet | PartitionSurvey | Sequence[int] | None") -> None:
        if data is not None and data is self._data:
            return
        self._take(data)
        self._refresh()
        self._changed()

    @property
    def survey(self) -> PartitionSurvey | None:
        """Counts of rows and labels; None before the data is counted."""
        return self._survey

    @property
    def forecast(self) -> PartitionForecast | None:
        """The forecast of the chosen repartition; None before the data is counted."""
        return self._forecast

    @property
    def forecasts(self) -> tuple[PartitionForecast, ...]:
        """The forecast of each mode and strategy."""
        return self._forecasts

    @property
    def mode(self) -> RepartitionMode:
        """When to repartition."""
        return self._choice.mode

    @mode.setter
    def mode(self, mode: RepartitionMode) -> None:
        self._choose(mode=mode)

    @property
    def strategy(self) -> RepartitionStrategy:
        """How to repartition."""
        return self._choice.strategy

    @strategy.setter
    def strategy(self, strategy: RepartitionStrategy) -> None:
        self._choose(strategy=strategy)

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self._choice.workers

    @property
    def batch_size(self) -> int:
        """Rows per minibatch and worker."""
        return self._choice.batch_size

    def set_context(
        self,
        workers: int | None = None,
        batch_size: int | None = None,
        *,
        kind: Any = None,
        step_s: float | None = None,
    ) -> None:
        """Set the context of the forecast, without notifying listeners; None: unchanged.

        Args:
            workers: number of workers.
            batch_size: rows per minibatch and worker.
            kind: "averaging" or "sharing".
            step_s: measured seconds per minibatch.

        Raises:
            ConfigurationError: if a value is invalid.
        """
        given = {"workers": workers, "batch_size": batch_size, "kind": kind, "step_s": step_s}
        found = {name: value for name, value in given.items() if value is not None}
        with self._lock:
            choice = replace(self._choice, **found)
            if choice == self._choice:
                return
            self._choice = choice
        if found.keys() & set(self._names):
            self.form.set(choice)
        self._refresh()

    # --- actions

    def count(self) -> bool:
        """Count rows and sample labels in the background; False if it cannot start."""
        data = self._data
        if data is None:
            return False

        def work() -> PartitionSurvey:
            from sparkwright.spark import survey_partitions

            return survey_partitions(data)

        def then(survey: PartitionSurvey) -> None:
            with self._lock:
                if self._data is not data:
                    return
                self._survey = survey
            self._recompute()
            self._changed()

        return self._begin("Counting rows and labels", work, then)

    def use_advised(self) -> None:
        """Choose the recommended mode and strategy, if the data is counted."""
        if self._forecasts:
            plan = recommended(self._forecasts).plan
            self._choose(mode=plan.mode, strategy=plan.strategy)

    # --- private

    def _take(self, data: Any) -> None:
        with self._lock:
            self._hold(data)

    def _hold(self, data: Any) -> None:
        self._survey = self._forecast = self._data = None
        self._forecasts = ()
        if data is None:
            return
        if isinstance(data, PartitionSurvey):
            self._survey = data
        elif isinstance(data, DistributedDataSet):
            self._data = data
            if data.is_counted:
                self._survey = PartitionSurvey(rows=data.partition_counts())
        elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
            self._survey = PartitionSurvey(rows=tuple(data))
        else:
            raise DataError(
                "`data` must be a DistributedDataSet, a PartitionSurvey, rows of each partition or "
                f"None. Received: {type(data).__name__}."
            )

    def _choose(self, **changes: Any) -> None:
        with self._lock:
            choice = replace(self._choice, **changes)
            if choice == self._choice:
                return
            self._choice = choice
        self.form.set(choice)
        self._refresh()
        self._changed()

    def _chosen(self, path: Path) -> None:
        if path in self.form.problems:
            return
        with self._lock:
            chosen = {path[0]: getattr(self.form.value, path[0])}
            self._choice = replace(self._choice, **chosen)
        self._refresh()
        self._changed()

    def _begin(self, what: str, work: Callable[[], Any], then: Callable[[Any], None]) -> bool:
        self.count_button.disabled = True

        def over() -> None:
            with self._lock:
                stale, self._stale = self._stale, False
            if stale:
                self._refresh()
            else:
                self._draw()

        return self.in_background(what, work, then, finally_=over)

    def _refresh(self) -> None:
        """Recompute the forecasts, on this thread if that is quick."""
        if self._survey is None or self._choice.is_quick(self._survey):
            self._recompute()
            self._draw()
            return
        with self._lock:  # running work reads `_stale` when it ends
            self._stale = self._background.busy
            if self._stale:
                return
        self._begin("Computing the forecasts", self._recompute, lambda _none: None)

    def _recompute(self) -> None:
        survey, choice = self._survey, self._choice
        forecasts = () if survey is None else choice.forecasts(survey)
        with self._lock:
            # Otherwise one of them changed, and that change recomputes the forecasts.
            if self._survey is survey and self._choice == choice:
                self._forecasts = forecasts
                self._forecast = choice.among(forecasts) if forecasts else None

    def _draw(self) -> None:
        with self._lock:
            self._draw_now()

    def _draw_now(self) -> None:
        forecast, survey = self._forecast, self._survey
        self.count_button.disabled = self._background.busy or self._data is None
        self.reason.value = _note_html(self._reason())
        self.advised_button.layout.display = "none"
        if forecast is None or survey is None:
            self.notes.value = self.figures.value = self.pictures.value = self.tables.value = ""
            return
        advised = recommended(self._forecasts)
        if _gain(advised) != _gain(forecast):
            self.advised_button.description = f"Repartition: {texts.choice_of(advised)}"
            self.advised_button.layout.display = None
        self.notes.value = texts.survey_html(survey)
        self.figures.value = texts.figures_html(forecast) + texts.advice_html(self.advice)
        self.pictures.value = texts.pictures_html(forecast)
        self.tables.value = texts.comparison_html(
            self._forecasts, forecast, advised
        ) + texts.numbers_html(forecast)

    @property
    def advice(self) -> list[str]:
        """Sentences of advice on the choice."""
        return [] if self._forecast is None else advice_on(self._forecast, self._forecasts)

    def _reason(self) -> str:
        """Why buttons are disabled, or what to do next."""
        if self._data is None and self._survey is None:
            return "There is no data yet. Choose a data source first."
        if self._data is None:
            return "Only counts are given, so there is no data to count."
        if self._survey is None:
            return "Count first, which reads the data once."
        return ""

    def _still(self) -> Block | None:
        forecast = self._forecast
        if forecast is None:
            return None
        return texts.still_block(
            forecast,
            self._forecasts,
            recommended(self._forecasts),
            self.advice,
            style=asset("partition_preview.css"),
        )


def _gain(forecast: PartitionForecast) -> tuple[bool, int, int]:
    """The sort key of forecasts; lower is better."""
    return forecast.has_uneven_labels, forecast.minibatches_after, forecast.rows_moved


def _note_html(sentence: str) -> str:
    return f'<div class="sparkwright-survey">{escaped(sentence)}</div>' if sentence else ""
