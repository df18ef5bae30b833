"""The first step of the workbench: which data, how its features are scaled, loading it."""

from collections.abc import Callable
from typing import Any

from sparkwright import Experiment
from sparkwright.data import DataSource
from sparkwright_widgets._data_picker import DataPicker
from sparkwright_widgets._ui import Button, Dropdown, Part, row

_NORMALIZE = [
    ("as they are", ""),
    ("to mean 0, deviation 1", "standardize"),
    ("to the range 0 to 1", "min_max"),
]


class DataStep(Part):
    """A DataPicker with what an experiment asks besides.

    Attributes:
        picker: the DataPicker.

    Args:
        experiment: what to begin with.
        spark: a session; None: none yet.
        load: loads the data; called on a thread of its own.
    """

    def __init__(
        self, experiment: Experiment, *, spark: Any | None, load: Callable[[], None]
    ) -> None:
        super().__init__()
        self._load = load
        self.picker = DataPicker(spark, experiment.data, with_load=False)
        self.picker.on_change(lambda _picker: self._changed())
        self._normalize = Dropdown(
            options=_NORMALIZE,
            value=experiment.normalize or "",
            description="Take features",
            style={"description_width": "initial"},
        )
        self._normalize.observe(self.guarded(lambda _change: self._changed()), "value")
        self.load_button = Button(
            description="Load", icon="download", tooltip="Load the data on Spark and count it"
        )
        self.load_button.on_click(self.guarded(lambda _button: self.load()))
        self.show(self.picker, row(self._normalize, self.load_button))

    @property
    def source(self) -> DataSource:
        """Which data."""
        return self.picker.source

    @property
    def normalize(self) -> Any:
        """How features are scaled; None: not at all."""
        return self._normalize.value or None

    @property
    def seen(self) -> dict[str, Any]:
        """What examples look like, as far as seen: the arguments of the builder's `set_data`."""
        preview = self.picker.preview
        if preview is None or preview.source.url != self.source.url:
            return {"features": {}, "labels": {}, "classes": {}}
        is_class = self.source.task == "classification" and preview.class_count is not None
        shape = preview.feature_shape
        return {
            "features": {} if shape is None else {"features": shape},
            "labels": {"labels": ()} if is_class else {},
            "classes": {"labels": preview.class_count} if is_class else {},
        }

    @property
    def problem(self) -> str | None:
        """Why the data cannot be loaded, in one sentence; None: it can."""
        return self.picker.problem

    def put(self, experiment: Experiment) -> None:
        """Show another experiment's choices."""
        self.picker.source = experiment.data
        self._normalize.value = experiment.normalize or ""

    def set_spark(self, spark: Any | None) -> None:
        """Hand the session on."""
        self.picker.spark = spark

    def load(self) -> None:
        """Load in the background."""
        self.load_button.disabled = True
        self.in_background(
            "Starting Spark if need be, loading and counting",
            self._load,
            finally_=lambda: setattr(self.load_button, "disabled", False),
        )
