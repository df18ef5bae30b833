"""Description of a saved model, and the metadata that users add when they save it."""

import getpass
import math
import platform
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from sparkwright._version import __version__
from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation.numbers import number_text
from sparkwright.evaluation.reports import Table
from sparkwright.networks.building import (
    example_as_json,
)
from sparkwright.networks.normalizing import NormalizerPlace
from sparkwright.networks.optimizer_checks import (
    weight_decay_exclusions,
)
from sparkwright.networks.signature import Spec, is_known, signature_of

ModelFormat = Literal["keras", "hdf5"]
_PLACES = {
    "inside": "inside the model",
    "beside": "beside the model: Keras alone does not apply it",
}
_FORMAT = 1  # of what `about_model` returns
_UNITS = ("B", "kB", "MB", "GB", "TB")
_AUTOMATIC = "auto"
_Shapes = dict[str, tuple[int | None, ...]]
# Fields that are read from the file unchanged.
_SAVED: dict[str, type[Any]] = {
    **dict.fromkeys(("name", "saved_by", "title", "comment", "normalizer"), str),
    **dict.fromkeys(("parameters", "trainable_parameters"), int),
    **dict.fromkeys(("metrics", "versions", "training"), dict),
    "has_updater": bool,
}


@configuration
class ModelMetadata(Configuration):
    """The user's description of a model.

    Example:
        >>> ModelMetadata(title="first try", metrics={"accuracy": np.float32(0.5)}).metrics
        {'accuracy': 0.5}
    """

    title: str | None = option(default=None, none_text="", help="Short title.")
    comment: str | None = option(default=None, none_text="", help="Description.")
    metrics: Mapping[str, Any] = option(
        default_factory=dict[str, Any],
        form=False,
        help="JSON-serializable results by name, such as those of an evaluation. Objects with "
        "`to_dict` and NumPy's numbers are converted; NaN and infinities, which JSON lacks, "
        "become None.",
    )
    saved_by: str | None = option(
        default=_AUTOMATIC, none_text="not kept", help='The author; "auto": user and machine.'
    )
    training: Mapping[str, Any] | None = option(
        default=None, form=False, help="JSON-serializable: how the model was trained."
    )

    def _check(self) -> None:
        for name in ("metrics", "training"):
            value: Any = getattr(self, name)
            value = value.to_dict() if hasattr(value, "to_dict") else value
            if name == "training" and value is None:
                continue
            if not isinstance(value, Mapping):
                raise ConfigurationError(
                    f"`{name}` must be a dict of results by name. "
                    f"Received: a {type(value).__name__}."
                )
            object.__setattr__(self, name, plain(value, name))


def plain(value: Any, name: str) -> Any:
    """Return `value` as JSON-serializable types."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key, name): plain(inner, f"{name}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, f"{name}[{number}]") for number, inner in enumerate(value)]
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), name)
    raise ConfigurationError(
        f"`{name}` must be JSON-serializable. Received: a {type(value).__name__}. Give numbers, "
        "text, lists or dicts."
    )


def _key(key: Any, name: str) -> str:
    if isinstance(key, str | int):
        return str(key)
    raise ConfigurationError(f"`{name}` must have strings as keys. Received: {key!r}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInfo:
    """Description of a saved model, read from its file. Missing fields are None or empty.

    Attributes:
        url: URL of the file.
        size_bytes: size of the file.
        format: "keras" or "hdf5" (Keras' older files); None if the file is damaged.
        name: name of the network.
        saved_at: time of saving, in UTC. Files that Keras wrote lack a time zone; UTC is assumed.
        saved_by: author.
        title: short title.
        comment: longer description.
        metrics: results by name, as given when the model was saved.
        versions: known versions of "sparkwright", "keras", its backend ("tensorflow" or "jax"),
            "python" and "numpy".
        parameters: number of parameters.
        trainable_parameters: number of trainable parameters.
        inputs: name -> shape, including the batch; None stands for any length.
        outputs: name -> shape, as for `inputs`.
        has_updater: whether the file contains the optimizer's state.
        sha256: digest of all of Keras' files in the archive; see `verify_model`.
        training: how the model was trained: run, epochs, examples, loss, master.
        normalizer: "inside": also applied by Keras alone; "beside": applied only by Sparkwright;
            None: the file has no normalizer.
        kept: names of additional content: "normalizer", "class_names", "schema", …
        problem: in a listing, why the file cannot be used; None: no problem found.
    """

    url: str
    size_bytes: int
    format: ModelFormat | None = None
    name: str | None = None
    saved_at: datetime | None = None
    saved_by: str | None = None
    title: str | None = None
    comment: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: int | None = None
    trainable_parameters: int | None = None
    inputs: Mapping[str, tuple[int | None, ...]] = field(default_factory=_Shapes)
    outputs: Mapping[str, tuple[int | None, ...]] = field(default_factory=_Shapes)
    has_updater: bool | None = None
    sha256: str | None = None
    training: Mapping[str, Any] | None = None
    normalizer: NormalizerPlace | None = None
    kept: tuple[str, ...] = ()
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable fields by name; the time is text."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **found,
            "saved_at": self.saved_at and self.saved_at.isoformat(),
            "metrics": dict(self.metrics),
            "versions": dict(self.versions),
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "outputs": {name: list(shape) for name, shape in self.outputs.items()},
            "kept": list(self.kept),
        }

    def __repr__(self) -> str:
        lines = (f"  {label:<10} {text}" for label, text in self._rows())
        return "\n".join([f"ModelInfo {self.url}", *lines])

    def _repr_html_(self) -> str:
        return Table([("model", self.url), *self._rows()]).html()

    def _rows(self) -> list[tuple[str, str]]:
        count = None if self.parameters is None else f"{self.parameters:,}"
        if count and self.trainable_parameters is not None:
            count += f", {self.trainable_parameters:,} of them trainable"
        updater = {None: None, True: "in the file", False: "not in the file"}[self.has_updater]
        found: list[tuple[str, str | None]] = [
            ("problem", self.problem),
            ("title", self.title),
            ("network", self.name),
            ("saved", " by ".join(t for t in (time_text(self.saved_at), self.saved_by) if t)),
            ("size", size_text(self.size_bytes)),
            ("parameters", count),
            ("inputs", _shapes_text(self.inputs)),
            ("outputs", _shapes_text(self.outputs)),
            ("optimizer", updater and f"its state is {updater}"),
            ("metrics", metrics_text(self.metrics)),
            ("training", _training_text(self.training or {})),
            ("normalizer", self.normalizer and _PLACES[self.normalizer]),
            ("kept", ", ".join(self.kept)),
            ("versions", ", ".join(f"{name} {text}" for name, text in self.versions.items())),
            ("sha256", self.sha256),
            ("comment", self.comment),
        ]
        return [(label, text) for label, text in found if text]


def info_from_about(about: Mapping[str, Any], **known: Any) -> ModelInfo:
    """Read the description that `save_model` wrote."""

    def refused(name: str, value: Any) -> DataError:
        return DataError(
            f"`{name}` in a model file must have the right type. Received: {value!r:.80} in "
            f"{known['url']}. Save the model again."
        )

    found: dict[str, Any] = {}
    for name, kind in _SAVED.items():
        value = about.get(name)
        # A bool is an int in Python, but not a valid count.
        if value is not None and (not isinstance(value, kind) or (kind is int and value is True)):
            raise refused(name, value)
        if value is not None:
            found[name] = value
    try:
        if about.get("saved_at") is not None:
            found["saved_at"] = read_time(about["saved_at"])
        shapes = {name: _read_shapes(about.get(name)) for name in ("inputs", "outputs")}
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise refused("saved_at, inputs or outputs", error) from None
    # Earlier versions did not write the placement: it was always beside the model.
    if "normalizer" in known.get("kept", ()):
        found.setdefault("normalizer", "beside")
    if found.get("normalizer") not in (None, *_PLACES):
        raise refused("normalizer", found["normalizer"])
    if "versions" in found:
        found["versions"] = {str(name): str(text) for name, text in found["versions"].items()}
    return ModelInfo(**known, **shapes, **found)


def _read_shapes(shapes: Any) -> _Shapes:
    return {
        str(name): tuple(None if length is None else int(length) for length in shape)
        for name, shape in ({} if shapes is None else shapes).items()
    }


def read_time(text: str) -> datetime:
    """Parse an ISO 8601 time, or Keras' variant; UTC is assumed without a time zone."""
    found = datetime.fromisoformat(text.replace("@", "T"))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def time_text(time: datetime | None) -> str:
    """Format a time with a resolution of seconds."""
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def size_text(size_bytes: int) -> str:
    """Format a size with units in powers of 1,000."""
    size, unit = float(size_bytes), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size_bytes} B"


def metrics_text(metrics: Mapping[str, Any]) -> str:
    """Format metrics that are numbers or text; nested metrics are omitted."""
    numbers = {n: v for n, v in metrics.items() if isinstance(v, int | float | str)}
    return ", ".join(
        f"{name} {number_text(value)}" if isinstance(value, float) else f"{name} {value}"
        for name, value in numbers.items()
    )


def _training_text(training: Mapping[str, Any]) -> str:
    master = training.get("master")
    name = master.get("name") if isinstance(master, Mapping) else None
    plain = {k: v for k, v in training.items() if not isinstance(v, Mapping)}
    return ", ".join(text for text in (metrics_text(plain), str(name or "")) if text)


def _shapes_text(shapes: Mapping[str, tuple[int | None, ...]]) -> str:
    return ", ".join(
        f"{name} ({', '.join('any' if length is None else str(length) for length in shape)})"
        for name, shape in shapes.items()
    )


def about_model(model: Any, metadata: ModelMetadata, *, has_updater: bool) -> dict[str, Any]:
    """Return the description of a model for its file, as JSON values."""
    import keras

    backend = keras.backend.backend()
    given = asdict(metadata)
    if metadata.saved_by == _AUTOMATIC:
        given["saved_by"] = _user()
    return {
        "format": _FORMAT,
        "name": str(model.name),
        **given,
        "saved_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "versions": {
            "sparkwright": __version__,
            "keras": keras.__version__,
            # The imported module has the version, whatever the name of its distribution.
            backend: str(sys.modules[backend].__version__),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "parameters": int(model.count_params()) if model.built else None,
        "trainable_parameters": sum(int(np.prod(v.shape)) for v in model.trainable_weights),
        "inputs": _shapes(model, "inputs"),
        "outputs": _shapes(model, "outputs"),
        "example": example_as_json(model),
        "has_updater": has_updater,
        "dtype_policy": str(model.dtype_policy.name),
        "undecayed": weight_decay_exclusions(model),
    }


def _shapes(model: Any, side: str) -> dict[str, list[int | None]]:
    """Return name -> shape; empty if the model's shapes are unknown."""
    if not is_known(model):
        return {}
    specs: Mapping[str, Spec] = getattr(signature_of(model), side)
    return {name: [None, *shape] for name, (_, shape) in specs.items()}


def _user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # some containers have no user name
        return socket.gethostname()
