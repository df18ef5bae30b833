"""The DataPicker: location, format, columns, split, preview and loading."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from sparkwright.data import DataPreview, DataSource
from sparkwright.data.formats import FORMATS
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._ui import (
    Button,
    ConfigurationForm,
    Dropdown,
    Fold,
    OptionForm,
    Part,
    advice,
    close_all,
    row,
    swap,
)

from . import _looks as looks
from ._columns import ColumnChooser
from ._location_chooser import LocationChooser
from ._reading import read_preview

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.data import DistributedDataSet


class DataPicker(Part):
    """A widget that configures a data source and previews it before loading.

    Attributes:
        data: the most recently loaded data set, or None.

    Args:
        spark: the Spark session for loading; default None: set `spark` later.
        source: the initial source; default None: the bundled digits.
        with_load: whether to show the Load button; default True.

    Example:
        picker = sw.DataPicker(spark)
        picker                      # in a cell of its own
        train = picker.source.load_split(spark)["train"]
    """

    def __init__(
        self,
        spark: "SparkSession | None" = None,
        source: DataSource | None = None,
        *,
        with_load: bool = True,
    ) -> None:
        super().__init__("Data", styles=("data_picker.css",))
        self.data: DistributedDataSet | None = None
        self._spark = spark
        self._source = _checked(source)
        self._seen: DataPreview | None = None
        self._pending: set[str] = set()  # steps of the next preview
        self._last_url = ""  # restored when a format with a URL follows one without
        self._with_load = with_load
        self._fixes: list[Button] = []
        self.format = Dropdown(
            description="Format", options=[(info.title, name) for name, info in FORMATS.items()]
        )
        self.format.observe(self.guarded(self._format_chosen), "value")
        self.advice = widgets.HTML()
        self.place = LocationChooser(self.guarded(self._url_chosen))
        self.columns = ColumnChooser(self.guarded, self._edit)
        self.options: OptionForm | None = None
        self.options_box = widgets.VBox()
        self.split = ConfigurationForm(self._source.split)
        self.split.on_change(self.guarded(self._split_chosen))
        self.options_fold = Fold("Format options", [self.options_box])
        self.figures, self.problems = widgets.HTML(), widgets.VBox()
        self.beginning, self.classes = widgets.HTML(), widgets.HTML()
        self.statistics, self.code = widgets.HTML(), widgets.HTML()
        self.statistics_fold = Fold("Column statistics", [self.statistics])
        self.classes_fold = Fold("Classes", [self.classes])
        self.look_button = self.new_button("Refresh", self.look, "Read the first rows again")
        self.load_button = self.new_button(
            "Load", self._begin_loading, "Load the data on Spark and count the examples"
        )
        self.loaded = widgets.HTML()
        head = widgets.VBox([self.format, self.advice], _dom_classes=["sparkwright-field"])
        seen = widgets.VBox(
            [self.figures, self.problems, self.beginning, self.classes_fold, self.statistics_fold]
        )
        form = widgets.VBox(
            [
                self.columns,
                Fold("Train, validation and test split", [self.split]),
                self.options_fold,
                Fold("Python code", [self.code]),
                row(self.look_button, *([self.load_button] if with_load else []), self.loaded),
            ]
        )
        columns = widgets.Box([seen, form], _dom_classes=["sparkwright-beside"])
        where = widgets.Box([head, self.place], _dom_classes=["sparkwright-where"])
        self.show(where, columns)
        self.add_class("sparkwright-data-picker")
        self._show_source()
        self._show_preview()
        self.look()

    # --- value

    @property
    def source(self) -> DataSource:
        """The current source; setting it updates the fields and the preview."""
        return self._source

    @source.setter
    def source(self, source: DataSource) -> None:
        source = _checked(source)
        if source == self._source and self._mistake is None:
            return
        # Replaces invalid field text, too.
        self.split.set(source.split)
        if self.options is not None:
            self.options.set(self._source.all_options)
        self._take(source, reset=True)

    @property
    def problem(self) -> str | None:
        """Why the source cannot be loaded, in a sentence; None if no problem is known."""
        seen = self.preview
        found = seen.problem if seen and seen.source == self._source else None
        # Unreadable files come first: without them there are no columns to choose.
        is_unread = found is not None and seen is not None and not seen.looked_at
        return self._mistake or (found if is_unread else None) or self._source.problem or found

    @property
    def _mistake(self) -> str | None:
        """The first validation error of a field; `source` excludes the invalid value."""
        options = {} if self.options is None else self.options.problems
        problems = (self.columns.problem, *options.values(), *self.split.problems.values())
        return next(filter(None, problems), None)

    @property
    def preview(self) -> DataPreview | None:
        """The most recent preview; of the previous source while a new one is being read.

        None before the first preview, and after a preview of another source failed.
        """
        seen = self._seen  # the preview does not depend on the split
        return seen and replace(seen, source=replace(seen.source, split=self._source.split))

    @property
    def spark(self) -> "SparkSession | None":
        """The Spark session for loading."""
        return self._spark

    @spark.setter
    def spark(self, spark: "SparkSession | None") -> None:
        self._spark = spark
        self._show_load()

    def load(self) -> "DistributedDataSet":
        """Load all data; blocks while classes are being inferred.

        Raises:
            ConfigurationError: if there is no session, the source is incomplete, or a field
                is invalid.
            DataError: if the files do not match the source.
        """
        if self._spark is None:
            raise ConfigurationError(
                "`load` needs a Spark session. Received: spark=None. "
                "Set one: `picker.spark = sw.start_spark()`."
            )
        if self._mistake is not None:
            raise ConfigurationError(self._mistake)
        self.data = self._source.load(self._spark)
        return self.data

    def close(self) -> None:
        """Close all widgets, hidden ones included."""
        close_all(self.load_button)
        super().close()

    def settle(self, timeout_s: float = 60.0) -> bool:
        """Wait for background work, listing a folder included; return False on timeout."""
        return self.place.settle(timeout_s) and super().settle(timeout_s)

    # --- preview

    def look(self) -> None:
        """Read the preview in the background."""
        self._pending.add("look")
        if self._background.busy:
            return
        source, pending = self._source, self._pending

        def done(result: tuple[DataSource, DataPreview]) -> None:
            self._looked(source, *result)

        self._pending = set()
        work = partial(read_preview, source, guess="guess" in pending, refit="refit" in pending)
        if not self.in_background("Reading the preview", work, done, finally_=self._settled):
            self._pending |= pending

    def _looked(self, asked: DataSource, found: DataSource, seen: DataPreview) -> None:
        split = self._source.split
        # The widget was closed, or the source changed and another preview is pending.
        if self.comm is None or self._source != replace(asked, split=split):
            return
        self._seen, self._source = seen, replace(found, split=split)
        self._show_source(reset=found != asked)
        self._show_preview()
        self._changed()

    def _settled(self) -> None:
        if self._pending:
            self.look()
        elif self.preview and self.preview.source != self._source and self.comm is not None:
            # The preview failed and its error is shown; the old preview is of other data.
            self._seen = None
            self._show_preview()
            self._changed()

    # --- edits

    def _format_chosen(self, change: Any) -> None:
        kept = self._source
        if change["new"] == kept.format:
            return
        # Keep the location; columns and options belong to the previous format.
        self._pending.add("refit")
        self._last_url = kept.url or self._last_url
        url = self._last_url if FORMATS[change["new"]].needs_url else ""
        split, partitions = kept.split, kept.partitions
        source = DataSource(format=change["new"], url=url, split=split, partitions=partitions)
        self._take(source, reset=True)

    def _url_chosen(self, url: str) -> None:
        if url == self._source.url:
            return
        if url and self._source.format != "table":
            self._pending.add("guess")
        self._take(replace(self._source, url=url), reset=True)

    def _edit(self, edit: Callable[[DataSource], DataSource]) -> None:
        source = self._source
        try:
            source = edit(source)
            self.columns.complain("")
        except ConfigurationError as error:
            self.columns.complain(str(error))
        self._take(source)

    def _option_chosen(self, name: str) -> None:
        source = self._source
        if self.options is not None and name not in self.options.problems:
            source = replace(source, options=self.options.changed_values)
        if source != self._source:
            self._pending.add("refit")
        self._take(source)

    def _split_chosen(self, _path: Any) -> None:
        if self.split.valid is not None:
            self._source = replace(self._source, split=self.split.valid)
        self._show_source()
        self._changed()

    def _take(self, source: DataSource, *, reset: bool = False) -> None:
        """Set and show a source; read its preview if it changed, or with `reset`."""
        is_new = reset or source != self._source
        self._source = source
        self._show_source(reset=reset)
        self._changed()
        if is_new:
            self.look()

    def _begin_loading(self) -> None:
        def done(found: tuple[Any, int]) -> None:
            data, count = found
            parts = data.rdd.getNumPartitions()
            self.loaded.value = (
                '<div role="status"><span aria-hidden="true">✓</span> Loaded: '
                f"{count_text(count)} examples in {count_text(parts)} partitions</div>"
            )
            self._changed()

        def work() -> tuple[Any, int]:
            data = self.load()
            return data, data.count()

        def ended() -> None:
            self.load_button.disabled = False
            self._settled()

        self.load_button.disabled = True
        self.loaded.value = ""
        if not self.in_background("Loading and counting", work, done, finally_=ended):
            self._show_load()

    # --- showing

    def _show_source(self, *, reset: bool = False) -> None:
        """Show the source except its split, which has its own form; keep equal typed text."""
        source, info, seen = self._source, self._source.info, self._seen
        self.format.value = source.format
        self.advice.value = advice(info.advice)
        self.place.set(source.url)
        self.place.layout.display = None if info.needs_url else "none"
        self.columns.layout.display = None if info.columns else "none"
        place = (source.format, source.url)
        fits = seen is not None and (seen.source.format, seen.source.url) == place
        self.columns.show(source, seen.columns if seen and fits else (), reset=reset)
        self._show_options()
        self.code.value = f'<pre tabindex="0">{escaped(looks.code_of(source))}</pre>'
        self._show_load()

    def _show_options(self) -> None:
        options = self._source.info.options
        self.options_fold.layout.display = None if options else "none"
        form = self.options
        if form is None or [f.option for f in form.fields.values()] != list(options):
            self.options = form = OptionForm(options, self._source.all_options)
            form.on_change(self.guarded(self._option_chosen))
            swap(self.options_box, form)
        else:
            held, wanted = form.values, self._source.all_options
            form.set({name: value for name, value in wanted.items() if value != held[name]})

    def _show_preview(self) -> None:
        figures, beginning, classes, statistics = looks.views(self._seen)
        self.figures.value, self.beginning.value = figures, beginning
        self.classes.value, self.statistics.value = classes, statistics
        self.classes_fold.layout.display = None if classes else "none"
        self.statistics_fold.layout.display = None if statistics else "none"
        self._fixes = []
        swap(self.problems, *(self._problem_box(*each) for each in looks.findings(self._seen)))

    def _problem_box(self, sentence: str, fixes: Sequence[looks.Fix]) -> widgets.Widget:
        """A problem and buttons that apply its fixes."""
        buttons = [self.new_button(f.label, partial(self._take_fixed, f.source)) for f in fixes]
        self._fixes += buttons
        inside = [widgets.HTML(sentence), *([row(*buttons)] if buttons else [])]
        return widgets.VBox(inside, _dom_classes=["sparkwright-finding"])

    def _take_fixed(self, source: DataSource) -> None:
        self._take(replace(source, split=self._source.split), reset=True)

    def _show_load(self) -> None:
        reason = self._mistake or self._source.problem
        if reason is None and self._spark is None and self._with_load:
            reason = "Loading needs a Spark session. Set picker.spark = sw.start_spark()."
        self.load_button.disabled = reason is not None
        self.loaded.value = advice(reason or "")

    def _still(self) -> Block:
        return looks.still(self._source, self.preview)


def _checked(source: DataSource | None) -> DataSource:
    if source is not None and not isinstance(source, DataSource):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"`source` must be a DataSource or None. Received: source={source!r}."
        )
    return DataSource() if source is None else source
