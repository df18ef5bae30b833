"""The experiment as a file: view, edit, save and open its YAML; export a notebook of code."""

import json
from collections.abc import Callable

import ipywidgets as widgets

from sparkwright import Experiment
from sparkwright.options import Option
from sparkwright.storage.files import exists
from sparkwright_widgets._ui import OptionForm, Part, TextEditor, download_link, row

_WHERE = Option(
    name="url",
    kind="text",
    default="experiment.yaml",
    label="URL of the file",
    help="A path, or any URL. The suffix .ipynb saves a notebook of plain code.",
)

_REPORT = Option(
    name="report",
    kind="text",
    default="report.html",
    label="URL of the report",
    help="A self-contained HTML file. The suffix .pdf saves a PDF, printed by Chromium.",
)


class ExperimentFile(Part):
    """Shows the experiment as text, applies edits, and reads and writes files."""

    def __init__(
        self,
        get: Callable[[], Experiment],
        put: Callable[[Experiment], None],
        *,
        report: Callable[[str], None],
    ) -> None:
        self._report = report
        self._get, self._put = get, put
        self._overruled: Experiment | None = None  # a state that Apply may replace
        self._asked_about: str | None = None  # the file that the next press may replace
        super().__init__()
        self.editor = TextEditor("Experiment", self._text, self._apply)
        self.editor.follow()
        self.where = OptionForm([_WHERE])
        self.save_button = self.new_button(
            "Save", self.save, "Write the experiment to the URL", icon="save"
        )
        self.open_button = self.new_button(
            "Open", self.open_file, "Read an experiment from the URL", icon="folder-open"
        )
        self.export_button = self.new_button(
            "Export as notebook",
            self.export,
            "Write a notebook of plain code that runs the experiment without widgets",
            icon="book",
        )
        self.report_where = OptionForm([_REPORT])
        self.report_button = self.new_button(
            "Write report", self.report, "Write a report of the last run", icon="file"
        )
        self.link = widgets.HTML()
        self.show(
            self.editor,
            self.where,
            row(self.save_button, self.open_button, self.export_button),
            self.link,
            self.report_where,
            row(self.report_button),
        )

    def follow(self) -> None:
        """Show the current experiment, unless the text is being edited."""
        if not self.editor.is_edited and self._get() != self._shown:
            self.link.value = ""
            self.editor.follow()

    def _text(self, form: str) -> str:
        self._shown = self._get()
        return self._shown.to_json() if form == "json" else self._shown.to_yaml()

    def _apply(self, text: str, form: str) -> bool:
        """Apply the text; ask first if the experiment has changed elsewhere."""
        experiment = (Experiment.from_json if form == "json" else Experiment.from_yaml)(text)
        now = self._get()
        if now not in (self._shown, self._overruled):
            self._overruled = now
            self.say(
                "The experiment has changed since this text was shown. Press Apply again to "
                "replace it with the text, or Discard edits to see the changes."
            )
            return False
        self._put(experiment)
        self.say("Applied.")
        return True

    def save(self) -> None:
        """Write the experiment, in the background; asks again before it replaces a file."""
        if self.editor.is_edited:
            self.say("The text has unapplied changes. Press Apply or Discard edits first.")
            return
        url, experiment = self.where.values["url"], self._get()
        self._write(url, experiment, lambda: self.say(f"Written to {url}."))

    def open_file(self) -> None:
        """Read an experiment, in the background."""
        url = self.where.values["url"]

        def take(experiment: Experiment) -> None:
            self._put(experiment)
            self.editor.refresh()
            self.say(f"Read from {url}.")

        self.in_background(f"Reading {url}", lambda: Experiment.load(url), take)

    def export(self) -> None:
        """Write the notebook next to the file of the URL, and show a download link."""
        experiment = self._get()
        url = self.where.values["url"]
        url = url if url.endswith(".ipynb") else f"{url.removesuffix('.yaml')}.ipynb"
        content = json.dumps(experiment.to_notebook(), indent=1)

        def offer() -> None:
            name = url.rstrip("/").rpartition("/")[2].removesuffix(".ipynb")
            self.link.value = download_link(name, "ipynb", content)
            self.say(f"Written to {url}.")

        self._write(url, experiment, offer)

    def report(self) -> None:
        """Write the report of the last run, in the background."""
        url = self.report_where.values["report"]
        self.in_background(
            f"Writing {url}",
            lambda: self._report(url),
            lambda _none: self.say(f"Written to {url}."),
        )

    def _write(self, url: str, experiment: Experiment, then: Callable[[], None]) -> None:
        replaces = self._asked_about == url
        self._asked_about = None

        def write() -> bool:
            if not replaces and exists(url):
                return False
            experiment.save(url)
            return True

        def written(done: bool) -> None:
            if done:
                then()
                return
            self._asked_about = url
            self.say(f"{url} exists already. Press the same button again to replace it.")

        self.in_background(f"Writing {url}", write, written)
