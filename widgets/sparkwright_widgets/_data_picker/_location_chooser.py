"""Choose the location of the data: a text field and a folder browser."""

import re
from collections.abc import Callable

import ipywidgets as widgets

from sparkwright.data import Entry, Folder, browse
from sparkwright_widgets._format import bytes_text, count_text, escaped
from sparkwright_widgets._ui import Fold, ListBox, Part, Text, row


class LocationChooser(Part):
    """A path or URL, typed or browsed; folders are listed in the background."""

    def __init__(self, chosen: Callable[[str], None]) -> None:
        super().__init__()
        self._folder: Folder | None = None
        self._wanted: str | None = None
        self.url = Text(
            description="Path or URL",
            placeholder="data/iris.csv, hdfs://host/folder, s3://bucket/folder/*.parquet",
            continuous_update=False,
        )
        self.url.add_class("sparkwright-wide")
        self.url.observe(self.guarded(lambda c: chosen(str(c["new"]).strip())), "value")
        self.where = widgets.HTML()
        self.list = ListBox(description="Folders and files", options=(), rows=8)
        self.list.add_class("sparkwright-listbox")
        self.list.observe(self.guarded(lambda _change: self._name_buttons()), "value")
        self.up_button = self.new_button("▲ Up", self._go_up, "Go to the parent folder")
        self.open_button = self.new_button(
            "Open", self._open_selected, "Open the folder or use the file"
        )
        self.take_button = self.new_button(
            "Use this folder", self._take_folder, "Use the listed folder"
        )
        self.fold = Fold(
            "Browse folders",
            [self.where, self.list, row(self.up_button, self.open_button, self.take_button)],
        )
        self.fold.button.on_click(self.guarded(lambda _button: self._unfolded()))
        self._name_buttons()
        self.show(self.url, self.fold)

    def set(self, url: str) -> None:
        """Show another path or URL; keep the typed text if it is equal."""
        if url != self.url.value.strip():
            self.url.value = url

    def go(self, url: str) -> None:
        """List a folder, or the folder of a file; of overlapping requests, the last one counts."""
        self._wanted = url  # set before `busy` is checked: a finishing listing reads it
        self._list()

    def _list(self) -> None:
        url = self._wanted
        if url is None or self._background.busy:
            return
        self._wanted = None
        self.in_background(
            "Listing the folder", lambda: browse(url), self._listed, finally_=self._list
        )

    def _listed(self, folder: Folder) -> None:
        if self._wanted is None:
            self._show(folder)

    def _unfolded(self) -> None:
        if self.fold.opened and self._folder is None:
            before = re.match(r"[^*?[]*", self.url.value.strip())  # text before the first wildcard
            url = before[0] if before else ""
            self.go(url if url == self.url.value.strip() else url.rpartition("/")[0])

    def _show(self, folder: Folder) -> None:
        self._folder = folder
        what = "" if folder.entries else "The folder is empty."
        if folder.left_out:
            what = (
                f"{count_text(folder.left_out)} more entries are not shown. Type the path instead."
            )
        self.where.value = f'<div role="status"><b>{escaped(folder.url)}</b> {escaped(what)}</div>'
        self.list.options = [(_line(entry), entry.url) for entry in folder.entries]
        self.list.index = 0 if folder.entries else None
        self._name_buttons()

    def _selected(self) -> Entry | None:
        entries = self._folder.entries if self._folder is not None else ()
        return next((entry for entry in entries if entry.url == self.list.value), None)

    def _name_buttons(self) -> None:
        entry = self._selected()
        self.up_button.disabled = self._folder is None or self._folder.parent is None
        self.take_button.disabled = self._folder is None
        self.open_button.disabled = entry is None
        is_file = entry is not None and not entry.is_folder
        self.open_button.description = "Use this file" if is_file else "Open folder"

    def _go_up(self) -> None:
        if self._folder is not None and self._folder.parent is not None:
            self.go(self._folder.parent)

    def _open_selected(self) -> None:
        if (entry := self._selected()) is None:
            return
        if entry.is_folder:
            self.go(entry.url)
        else:
            self.url.value = entry.url

    def _take_folder(self) -> None:
        if self._folder is not None:
            self.url.value = self._folder.url


def _line(entry: Entry) -> str:
    if entry.is_folder:
        return f"▸ {entry.name}/"
    size = "" if entry.size_bytes is None else f"   {bytes_text(entry.size_bytes)}"
    return f"{entry.name}{size}"
