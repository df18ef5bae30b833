"""A panel to pick data with: place, format, columns, split; what it looks like; loading it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from sparkwright.data import DataPreview, DataSource, guess_source, preview
from sparkwright.data.formats import FORMATS
from sparkwright.data.guessing import with_guessed_columns
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._ui import (
    ConfigurationForm,
    Dropdown,
    Fold,
    OptionForm,
    Part,
    advice,
    close_all,
    row,
)

from . import _looks as looks
from ._columns import ColumnChooser
from ._place import PlaceChooser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.data import DistributedDataSet


class DataPicker(Part):
    """Picks a source of data, and shows what is in it before anything is loaded.

    Attributes:
        data: what was loaded last, or None.

    Args:
        spark: a session, to load with; default None: set `spark` later.
        source: what to begin with; default None: the bundled digits.
        with_load: whether there is a button that loads; default True.

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
        self._preview: DataPreview | None = None
        self._again = self._guesses = self._refits = self._setting = False
        self._told_mistake: str | None = None
        self.format = Dropdown(
            description="Data", options=[(info.title, name) for name, info in FORMATS.items()]
        )
        self.format.observe(self.guarded(self._format_chosen), "value")
        self.advice = widgets.HTML()
        self.place = PlaceChooser(self.guarded(self._url_chosen))
        self.columns = ColumnChooser(self.guarded, self._edit)
        self.options: OptionForm | None = None
        self.options_box = widgets.VBox()
        self.split = ConfigurationForm(self._source.split)
        self.split.on_change(self.guarded(self._split_chosen))
        self.options_fold = Fold("Options of the format", [self.options_box])
        self.split_fold = Fold("Training, validation and test", [self.split])
        self.figures, self.problems = widgets.HTML(), widgets.HTML()
        self.beginning, self.classes = widgets.HTML(), widgets.HTML()
        self.statistics, self.code = widgets.HTML(), widgets.HTML()
        self.statistics_fold = Fold("Columns in figures", [self.statistics])
        self.classes_fold = Fold("Classes", [self.classes])
        self.look_button = self.new_button(
            "Look again", self.look, "Read the beginning of the data once more"
        )
        self.load_button = self.new_button(
            "Load", self._begin_loading, "Load the data on Spark and count the examples"
        )
        self.loaded = widgets.HTML()
        head = widgets.VBox([self.format, self.advice])
        head.add_class("sparkwright-field")
        self.show(
            head,
            self.place,
            self.columns,
            self.options_fold,
            self.split_fold,
            self.figures,
            self.problems,
            self.beginning,
            self.classes_fold,
            self.statistics_fold,
            Fold("The same as code", [self.code]),
            row(self.look_button, *([self.load_button] if with_load else []), self.loaded),
        )
        self.add_class("sparkwright-data-picker")
        self._show_source()
        self.look()

    # --- what it holds

    @property
    def source(self) -> DataSource:
        """The source as it stands; setting another shows it and looks at it."""
        return self._source

    @source.setter
    def source(self, source: DataSource) -> None:
        source = _checked(source)
        if source == self._source and self._mistake is None:
            return
        # Of what was typed here and could not be meant, nothing stays.
        self.split.set(source.split)
        if self.options is not None:
            self.options.set(self._source.all_options)
        self._take(source, afresh=True)

    @property
    def problem(self) -> str | None:
        """Why it cannot be loaded, in a sentence; None: nothing that is known."""
        reason = self._mistake or self._source.problem
        if reason is not None:
            return reason
        seen = self._preview
        return seen.problem if seen is not None and seen.source == self._source else None

    @property
    def _mistake(self) -> str | None:
        """What is wrong with what stands in a field, so that `source` does not hold it."""
        if self.columns.problem:
            return self.columns.problem
        options = {} if self.options is None else self.options.problems
        return next(iter((*options.values(), *self.split.problems.values())), None)

    @property
    def preview(self) -> DataPreview | None:
        """What the last look found; of an older source while a look is still going on.

        None if there was none, or if a look at another source failed.
        """
        return self._preview

    @property
    def spark(self) -> "SparkSession | None":
        """The session to load with."""
        return self._spark

    @spark.setter
    def spark(self, spark: "SparkSession | None") -> None:
        self._spark = spark
        self._show_load()

    def load(self) -> "DistributedDataSet":
        """Load the data, whole; blocks while classes are being found.

        Raises:
            ConfigurationError: if there is no session, the source is not complete, or a field
                holds what cannot be meant.
            DataError: if files do not fit.
        """
        if self._spark is None:
            raise ConfigurationError(
                "a DataPicker needs a Spark session to load with. Received: spark=None. Give it "
                "one: `picker.spark = sw.start_spark()`."
            )
        if self._mistake is not None:
            raise ConfigurationError(self._mistake)
        self.data = self._source.load(self._spark)
        return self.data

    def close(self) -> None:
        """Free the widgets, those that are not shown too."""
        close_all(self.load_button)
        super().close()

    def settle(self, timeout_s: float = 60.0) -> bool:
        """Wait until nothing goes on, listing a folder included; False if that took too long."""
        return self.place.settle(timeout_s) and super().settle(timeout_s)

    def _changed(self) -> None:
        self._told_mistake = self._mistake
        super()._changed()

    # --- looking

    def look(self) -> None:
        """Look at the beginning of the data, in the background."""
        if self._background.busy:
            self._again = True
            return
        self._again = False
        source, guesses, refits = self._source, self._guesses, self._refits

        def work() -> tuple[DataSource, DataSource, DataPreview]:
            found = _guessed(source) if guesses else source
            seen = preview(found)
            if refits and (fitted := _refitted(found, seen)) != found:
                found, seen = fitted, preview(fitted)
            return source, found, seen

        self._guesses = self._refits = False
        begun = self.in_background(
            "Looking at the data", work, self._looked, finally_=self._settled
        )
        self._again = self._again or not begun

    def _looked(self, result: tuple[DataSource, DataSource, DataPreview]) -> None:
        asked, found, seen = result
        if self.comm is None:
            return  # closed meanwhile: what would be made now, nobody would close
        split = self._source.split
        if self._source != replace(asked, split=split):
            return  # changed meanwhile: the next look is on its way
        found, seen = replace(found, split=split), replace(seen, source=replace(found, split=split))
        self._preview = seen
        self._source = found
        self._show_source(afresh=found != replace(asked, split=split))
        self._show_preview()
        self._changed()

    def _settled(self) -> None:
        if self._again:
            self.look()
            return
        seen = self._preview
        if seen is not None and seen.source != self._source and self.comm is not None:
            # The look failed, as its error says: what is in view is of other data.
            self._preview = None
            self._show_preview()
            self._changed()

    # --- what people do

    def _format_chosen(self, change: Any) -> None:
        if self._setting:
            return
        # Columns and options of another format mean nothing; the place may be right.
        self._refits = True
        kept = DataSource(
            format=change["new"],
            url=self._source.url,
            split=self._source.split,
            partitions=self._source.partitions,
        )
        self._take(kept, afresh=True)

    def _url_chosen(self, url: str) -> None:
        self._guesses = bool(url) and self._source.format != "table"
        self._take(replace(self._source, url=url), afresh=True)

    def _edit(self, edit: Callable[[DataSource], DataSource]) -> None:
        try:
            source = edit(self._source)
        except ConfigurationError as error:
            self.columns.complain(str(error))
            self._tell_mistake()
            return
        self.columns.complain("")
        self._take(source)

    def _option_chosen(self, name: str) -> None:
        form = self.options
        if form is None or self._setting:
            return
        if name not in form.problems:
            source = replace(self._source, options=form.changed_values)
            self._refits = self._refits or source != self._source
            self._take(source)
        self._tell_mistake()

    def _split_chosen(self, _path: Any) -> None:
        split = self.split.valid
        if split is None or split == self._source.split:
            self._tell_mistake()
            return
        self._source = replace(self._source, split=split)
        if (seen := self._preview) is not None:
            # How it is divided changes nothing of what was seen.
            self._preview = replace(seen, source=replace(seen.source, split=split))
        self._show_source()
        self._changed()

    def _tell_mistake(self) -> None:
        """Say, if that is new, that what stands in a field cannot be meant, or now can."""
        if self._mistake != self._told_mistake:
            self._show_load()
            self._changed()

    def _take(self, source: DataSource, *, afresh: bool = False) -> None:
        """Hold another source, show it, and look at it.

        Args:
            source: the other one.
            afresh: whether it is more than a choice of columns or an option changed here.
        """
        if source == self._source and not self._guesses and not afresh:
            self._tell_mistake()
            return
        self._source = source
        self._show_source(afresh=afresh)
        self._changed()
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

        self.load_button.disabled = True
        self.loaded.value = ""
        begun = self.in_background("Loading and counting", work, done, finally_=self._load_ended)
        if not begun:
            self._show_load()

    def _load_ended(self) -> None:
        self.load_button.disabled = False
        self._settled()

    # --- showing

    def _show_source(self, *, afresh: bool = False) -> None:
        """Show the source, except the split: it comes from its form, or `source` is set.

        A field that somebody types in must not be written to: it would lose what comes next.
        """
        self._setting = True
        try:
            source, info = self._source, self._source.info
            self.format.value = source.format
            self.advice.value = advice(info.advice)
            self.place.set(source.url)
            self.place.layout.display = None if info.needs_url else "none"
            seen = self._preview
            fits = seen is not None and seen.source.format == source.format
            fits = fits and seen is not None and seen.source.url == source.url
            self.columns.layout.display = None if info.columns else "none"
            self.columns.show(
                source, seen.columns if seen is not None and fits else (), afresh=afresh
            )
            self._show_options()
            self.code.value = f'<pre tabindex="0">{escaped(looks.code_of(source))}</pre>'
        finally:
            self._setting = False
        self._show_load()

    def _show_options(self) -> None:
        options = self._source.info.options
        self.options_fold.layout.display = None if options else "none"
        form = self.options
        if form is None or [f.option for f in form.fields.values()] != list(options):
            form = OptionForm(options, self._source.all_options)
            form.on_change(self.guarded(self._option_chosen))
            self.options = form
            old = self.options_box.children
            self.options_box.children = (form,)
            for each in old:
                close_all(each)
        else:
            held, wanted = form.values, self._source.all_options
            form.set({name: value for name, value in wanted.items() if value != held[name]})

    def _show_preview(self) -> None:
        seen = self._preview
        if seen is None:
            pictures = (self.beginning, self.classes, self.statistics)
            for view in (self.figures, self.problems, *pictures):
                view.value = ""
            self.classes_fold.layout.display = self.statistics_fold.layout.display = "none"
            return
        self.figures.value = looks.extent_figures(seen) + advice(seen.note)
        hint = looks.REMEDIES if any(p.can_skip for p in seen.problems) else ""
        self.problems.value = looks.problem_list(seen.problems) + hint
        self.beginning.value = looks.beginning(seen)
        self.classes.value = looks.class_bars(seen)
        self.classes_fold.layout.display = None if self.classes.value else "none"
        self.statistics.value = looks.column_table(seen)
        self.statistics_fold.layout.display = None if self.statistics.value else "none"
        self._show_load()

    def _show_load(self) -> None:
        reason = self._mistake or self._source.problem
        if reason is None and self._spark is None:
            reason = "Loading needs a Spark session: picker.spark = sw.start_spark()."
        self.load_button.disabled = reason is not None
        self.loaded.value = advice(reason or "")

    def _still(self) -> Block:
        return looks.still(self._source, self._preview)


def _checked(source: DataSource | None) -> DataSource:
    if source is not None and not isinstance(source, DataSource):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"`source` must be a DataSource or None. Received: source={source!r}."
        )
    return DataSource() if source is None else source


def _guessed(source: DataSource) -> DataSource:
    """What the place of `source` suggests; its split stays."""
    try:
        found = guess_source(source.url)
    except (OSError, ConfigurationError):
        return source  # the look says what is wrong
    return replace(found, split=source.split, partitions=source.partitions)


def _refitted(source: DataSource, seen: DataPreview) -> DataSource:
    """`source` with another label and features, if its own are none of the columns."""
    names = {column.name for column in seen.columns}
    absent = {source.label, *source.features, *source.categories} - names - {None}
    chosen = source.label is not None or source.task == "other"
    if source.info.labelled and names and (absent or not chosen):
        return with_guessed_columns(source, seen.columns)
    return source
