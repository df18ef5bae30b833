"""RunsTable: stored runs of all sessions, with overlaid curves, names and tags."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets as widgets

from sparkwright.runs import RunStore, RunTable, StoredRun

from ._block import Block
from ._comparison_table import numbered
from ._format import count_text, counted
from ._runs_grid import RunsGrid
from ._ui import Confirmation, Part, Text, hint, row, swap
from .comparison import RunComparison

# How often the file is polled; a training run writes every 2 to 15 s.
_LOOK_EVERY_S = 2.0
MOST_COMPARED = 12


class RunsTable(Part):
    """Shows the runs of a `RunStore`; compares, renames, tags and deletes the selected ones.

    The table follows the file, so runs of other kernels appear automatically.

    Args:
        store: a RunStore, or the path of its file; default None: `RunStore()`.
        limit: maximum number of runs shown, the latest first; default 200.
    """

    def __init__(self, store: RunStore | str | Path | None = None, *, limit: int = 200) -> None:
        super().__init__("Runs", styles=("runs_table.css",))
        self.store = store if isinstance(store, RunStore) else RunStore(store)
        self._limit = limit
        self._runs = RunTable()
        self._compared: list[tuple[str, str]] = []  # id and name of each run in the chart
        self._drawn: Sequence[StoredRun] = ()
        self._looking = threading.RLock()
        self.grid = RunsGrid()
        self.find_field = Text(value="", placeholder="name, tag or title", description="Find")
        self.refresh_button = self.new_button("Refresh", self.refresh)
        self.found = widgets.HTML()
        self.name_field = Text(value="", description="Name")
        self.rename_button = self.new_button("Rename", self._rename)
        self.tag_field = Text(value="", description="Tag")
        self.tag_button = self.new_button("Add tag", lambda: self._tag(self.store.tag))
        self.untag_button = self.new_button("Remove tag", lambda: self._tag(self.store.untag))
        self.delete_button = self.new_button("Delete …", self._ask_to_delete)
        self.deleting = Confirmation(self.guarded, lambda: self.say("Nothing was deleted."))
        self.actions = row(
            *(self.name_field, self.rename_button, self.tag_field, self.tag_button),
            *(self.untag_button, self.delete_button),
        )
        self.comparison = widgets.VBox()
        self.find_field.observe(self.guarded(lambda _change: self._show()), "value")
        self.grid.observe(self.guarded(lambda _change: self._selected_changed()), "selected")
        self.show(
            row(self.find_field, self.refresh_button),
            *(self.found, self.grid, self.actions, self.deleting, self.comparison),
        )
        self.refresh()
        self._thread = threading.Thread(
            target=self._follow, name="sparkwright-runs-table", daemon=True
        )
        self._thread.start()

    # --- value

    @property
    def runs(self) -> RunTable:
        """The runs that match the search, the latest first."""
        words = self.find_field.value.lower().split()
        return RunTable(
            run
            for run in self._runs
            if all(
                w in " ".join((run.name, run.title, run.state, *run.tags)).lower() for w in words
            )
        )

    @property
    def selected(self) -> RunTable:
        """The selected runs, in the order of selection."""
        runs = {run.id: run for run in self._runs}
        return RunTable(runs[each] for each in self.grid.selected if each in runs)

    def select(self, *names: str) -> None:
        """Select only the runs with these names or ids.

        Raises:
            ConfigurationError: if there is no such run.
            OSError: if the store cannot be read.
        """
        self.grid.selected = [self.store.run(name).id for name in names]

    def refresh(self) -> None:
        """Read the store again.

        Raises:
            OSError: if the store cannot be read.
        """
        with self._looking:
            self._stamp = self._stamp_now()
            self._runs = self.store.runs(limit=self._limit)
            there = {run.id for run in self._runs}
            if set(self.grid.selected) - there:  # deleted, here or elsewhere
                self.grid.selected = [each for each in self.grid.selected if each in there]
            self._show()

    # --- following the file

    def _follow(self) -> None:
        shown = ""
        while not self._closing.wait(_LOOK_EVERY_S):
            try:
                # The file does not record whether the process of a run is alive.
                goes_on = any(not run.has_ended for run in self._runs)
                if goes_on or self._stamp_now() != self._stamp:
                    self.refresh()
                shown = ""
            except Exception as error:
                if str(error) != shown:  # show repeated errors only once
                    shown = str(error)
                    self.show_error(error)

    def _stamp_now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.store.path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    # --- user actions

    def _selected_changed(self) -> None:
        self.deleting.clear()
        self.say("")
        selected = self.selected
        self.name_field.value = selected[0].name if len(selected) == 1 else ""
        self._show()
        self._changed()

    def _rename(self) -> None:
        (run,) = self.selected
        self.store.rename(run, self.name_field.value.strip())
        self.refresh()

    def _tag(self, change: Callable[..., StoredRun]) -> None:
        tags = [tag.strip() for tag in self.tag_field.value.split(",") if tag.strip()]
        for run in self.selected:
            change(run, *tags)
        self.tag_field.value = ""
        self.refresh()

    def _ask_to_delete(self) -> None:
        runs = self.selected
        goes_on = any(not run.has_ended for run in runs)
        self.deleting.ask(
            f"Delete {_several(runs)}? This cannot be undone."
            + (" A run in progress continues, but is no longer stored." if goes_on else ""),
            yes="Delete permanently",
            no="Cancel",
            then=lambda: self._delete(runs),
            button=self.delete_button,
        )

    def _delete(self, runs: RunTable) -> None:
        self.store.delete(*runs)
        self.say(f"Deleted {_several(runs)}.")
        self.refresh()

    # --- drawing

    def _show(self) -> None:
        with self._looking:
            shown, selected = self.runs, self.selected
            self.grid.show(shown)
            self.found.value = hint(self._found())
            self.grid.layout.display = None if shown else "none"
            self.actions.layout.display = None if selected else "none"
            self.rename_button.disabled = self.name_field.disabled = len(selected) != 1
            self._show_comparison(selected[:MOST_COMPARED])

    def _found(self) -> str:
        shown, every = len(self.runs), len(self._runs)
        if not every:
            return f"No runs are stored in {self.store.path} yet. Training runs are stored there."
        runs = counted(every, "run")
        chosen = len(self.grid.selected)
        text = runs if shown == every else f"{count_text(shown)} of {runs}"
        text += f"; {count_text(chosen)} selected" if chosen else "; select runs to compare them"
        return (
            f"{text}, the first {MOST_COMPARED} compared." if chosen > MOST_COMPARED else f"{text}."
        )

    def _show_comparison(self, runs: Sequence[StoredRun]) -> None:
        names = numbered([run.name for run in runs])
        shown = [(run.id, name) for run, name in zip(runs, names, strict=True)]
        if shown != self._compared:
            self._compared = shown
            swap(self.comparison, *([RunComparison(runs, names=names)] if runs else []))
        elif runs != self._drawn:
            self.comparison.children[0].replace(runs)
        self._drawn = runs

    def _still(self) -> Block | None:
        return self.grid.block() if self.grid.rows else None


def _several(runs: Sequence[StoredRun]) -> str:
    return f"run {runs[0].name}" if len(runs) == 1 else counted(len(runs), "run")
