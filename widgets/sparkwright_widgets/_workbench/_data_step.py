"""The first step of the workbench: choose the data, scale its features, load it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkwright import Experiment
from sparkwright.data import DataSource
from sparkwright_widgets._data_picker import DataPicker
from sparkwright_widgets._ui import ConfigurationForm, Part, row


class DataStep(Part):
    """A DataPicker with the options of an experiment beside it; `load` runs on a thread."""

    def __init__(
        self, experiment: Experiment, *, spark: Any | None, load: Callable[[], None]
    ) -> None:
        super().__init__()
        self._load = load
        self.picker = DataPicker(spark, experiment.data, with_load=False)
        self.picker.on_change(lambda _picker: self._changed())
        self.form = ConfigurationForm(experiment, names=("normalize",))
        self.form.on_change(lambda _path: self._changed())
        self.load_button = self.new_button(
            "Load again", self.load, "Read the files again, such as after they have changed"
        )
        self.show(self.picker, self.form, row(self.load_button))
        self.set_loaded(False)

    @property
    def source(self) -> DataSource:
        return self.picker.source

    @source.setter
    def source(self, source: DataSource) -> None:
        self.picker.source = source

    @property
    def normalize(self) -> Any:
        """How features are scaled; None: unscaled."""
        return self.form.value.normalize

    @normalize.setter
    def normalize(self, normalize: Any) -> None:
        self.form.set(replace(self.form.value, normalize=normalize))

    @property
    def seen(self) -> dict[str, Any]:
        """The known shapes of the data, as arguments of `NetworkBuilder.set_data`."""
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
        """Why the data cannot be loaded, in one sentence; None if it can."""
        return self.picker.problem

    def set_loaded(self, loaded: bool) -> None:
        """Show the button once data is loaded; the primary button loads the first time."""
        self.load_button.layout.display = None if loaded else "none"

    def set_spark(self, spark: Any | None) -> None:
        """Pass the session to the picker."""
        self.picker.spark = spark

    def load(self) -> None:
        """Load in the background."""
        self.load_button.disabled = True
        self.in_background(
            "Starting Spark if needed, loading and counting the data",
            self._load,
            finally_=lambda: setattr(self.load_button, "disabled", False),
        )
