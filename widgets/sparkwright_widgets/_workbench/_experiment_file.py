"""The experiment as a file: YAML to look at, change and keep; a notebook of plain code."""

import json
from base64 import b64encode
from collections.abc import Callable

import ipywidgets as widgets

from sparkwright import Experiment
from sparkwright.options import Option
from sparkwright.storage._files import exists
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, OptionForm, Part, Textarea, row

_WHERE = Option(
    name="url",
    kind="text",
    default="experiment.yaml",
    label="URL of the file",
    help="A path, or any URL. A name that ends in .ipynb is written as a notebook of plain code.",
)

_REPORT = Option(
    name="report",
    kind="text",
    default="report.html",
    label="URL of the report",
    help="One HTML file that needs no network. A name that ends in .pdf is printed by Chromium.",
)


class ExperimentFile(Part):
    """Shows the experiment as YAML, takes changed YAML, and reads and writes files.

    Args:
        get: the experiment as it is.
        put: takes another one.
        report: writes the report of the last run to a URL.
    """

    def __init__(
        self,
        get: Callable[[], Experiment],
        put: Callable[[Experiment], None],
        *,
        report: Callable[[str], None],
    ) -> None:
        self._report = report
        self._get, self._put = get, put
        self._shown = ""  # the text as it was shown last
        self._overruled = ""  # a state of the experiment that Apply may replace
        self._asked_about: str | None = None  # the file that the next press may replace
        super().__init__()
        self.text = Textarea(
            description="Experiment (YAML)",
            rows=14,
            style={"description_width": "initial"},
            layout={"width": "100%"},
        )
        self.text.add_class("sparkwright-yaml")
        self.apply_button = Button(
            description="Apply", icon="check", tooltip="Take over the text above"
        )
        self.apply_button.on_click(self.guarded(lambda _button: self.apply()))
        self.refresh_button = Button(
            description="Show anew", icon="refresh", tooltip="Show the experiment as it is now"
        )
        self.refresh_button.on_click(self.guarded(lambda _button: self.refresh()))
        self.where = OptionForm([_WHERE])
        self.save_button = Button(
            description="Save", icon="save", tooltip="Write the experiment to the URL"
        )
        self.save_button.on_click(self.guarded(lambda _button: self.save()))
        self.open_button = Button(
            description="Open", icon="folder-open", tooltip="Read an experiment from the URL"
        )
        self.open_button.on_click(self.guarded(lambda _button: self.open_file()))
        self.export_button = Button(
            description="Export as notebook",
            icon="book",
            tooltip="Write plain code cells that do the same without widgets",
        )
        self.export_button.on_click(self.guarded(lambda _button: self.export()))
        self.report_where = OptionForm([_REPORT])
        self.report_button = Button(
            description="Write report", icon="file", tooltip="Write a report of the last run"
        )
        self.report_button.on_click(self.guarded(lambda _button: self.report()))
        self.link = widgets.HTML()
        self.show(
            self.text,
            row(self.apply_button, self.refresh_button),
            self.where,
            row(self.save_button, self.open_button, self.export_button),
            self.link,
            self.report_where,
            row(self.report_button),
        )
        self.refresh()

    @property
    def is_edited(self) -> bool:
        """Whether the text has been changed and was not applied yet."""
        return self.text.value != self._shown

    def follow(self) -> None:
        """Show the experiment as it is, unless somebody is editing the text."""
        if not self.is_edited:
            self.refresh()

    def refresh(self) -> None:
        """Show the experiment as it is; what was typed and not applied is gone."""
        text = self._get().to_yaml()
        if text != self._shown or self.text.value != text:
            self._shown = text
            self.text.value = text
            self.link.value = ""

    def apply(self) -> None:
        """Take over the text; what is wrong with it is shown, and nothing changes then.

        Where the experiment has changed since the text was shown, it asks again first.
        """
        experiment = Experiment.from_yaml(self.text.value)
        now = self._get().to_yaml()
        if self.is_edited and now not in (self._shown, self._overruled):
            self._overruled = now
            self.say(
                "The experiment has been changed elsewhere since this text was shown. Apply once "
                "more to replace all of it with the text, or Show anew to see the changes."
            )
            return
        self._put(experiment)
        self.refresh()
        self.say("Applied.")

    def save(self) -> None:
        """Write the experiment, in the background; asks again before it replaces a file."""
        if self.is_edited:
            self.say("The text has changes that are not applied: press Apply first, or Show anew.")
            return
        url, experiment = self.where.values["url"], self._get()
        self._write(url, experiment, lambda: self.say(f"Written to {url}."))

    def open_file(self) -> None:
        """Read an experiment, in the background."""
        url = self.where.values["url"]

        def take(experiment: Experiment) -> None:
            self._put(experiment)
            self.refresh()
            self.say(f"Read from {url}.")

        self.in_background(f"Reading {url}", lambda: Experiment.load(url), take)

    def export(self) -> None:
        """Write the notebook beside the file of the URL, and offer it to be downloaded."""
        experiment = self._get()
        url = self.where.values["url"]
        url = url if url.endswith(".ipynb") else f"{url.removesuffix('.yaml')}.ipynb"
        content = json.dumps(experiment.to_notebook(), indent=1).encode()

        def offer() -> None:
            data = b64encode(content).decode()
            name = url.rstrip("/").rpartition("/")[2]
            self.link.value = (
                f'<a download="{escaped(name)}" href="data:application/x-ipynb+json;base64,{data}">'
                f"Download {escaped(name)}</a>"
            )
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
