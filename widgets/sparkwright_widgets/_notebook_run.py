"""Execute a notebook and print its progress.

The kernel uses the current interpreter and runs in the notebook's folder. The first Ctrl-C
interrupts the running cell, so that a training run stops and releases its executors. A second
Ctrl-C, or ten seconds, ends the kernel.
"""

import asyncio
import contextlib
import re
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from ._format import duration_text, plain

_KERNEL_START_TIMEOUT_S = 60
_GRACE_S = 10.0  # between interrupting a cell and ending its kernel
_TRACEBACK_LINES = 25

# Runs after the last cell: what the panels' threads display at the end would else be lost.
_SETTLE = (
    "import sys as _sys\n"
    "if 'sparkwright_widgets' in _sys.modules:\n"
    "    from sparkwright_widgets.display import settle as _settle\n"
    "    _settle()\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NotebookFailure:
    """Why a notebook failed."""

    cell: int  # among the code cells, from 1; 0: none had started
    source: str  # the first lines of that cell
    reason: str
    details: str = ""  # end of the traceback, or of the output of the kernel's process
    was_interrupted: bool = False  # by the user or a signal


def run_notebook(
    notebook: NotebookNode,
    *,
    folder: Path,
    timeout_s: float | None,
    say: Callable[[str], None],
) -> NotebookFailure | None:
    """Execute `notebook` in place, with outputs even if it fails; None if every cell ran."""
    return asyncio.run(_run(notebook, folder=folder, timeout_s=timeout_s, say=say))


async def _run(
    notebook: NotebookNode,
    *,
    folder: Path,
    timeout_s: float | None,
    say: Callable[[str], None],
) -> NotebookFailure | None:
    with tempfile.TemporaryDirectory(prefix="sparkwright-") as private:
        # Sockets in a private folder instead of TCP ports, so that other users cannot connect.
        manager = AsyncKernelManager(
            kernel_spec_manager=_ThisInterpreter(),
            connection_file=f"{private}/kernel.json",
            transport="ipc",
            ip=f"{private}/socket",
        )
        client = _ReportingClient(notebook, manager, timeout_s=timeout_s, say=say)
        # What the kernel's process and its children (Spark's JVM) write outside of cells.
        log = Path(private) / "kernel.log"
        with log.open("wb") as stream:
            failure = await _run_on(client, manager, cwd=str(folder), stdout=stream, stderr=stream)
        if failure and not failure.details and not failure.was_interrupted:
            lines = plain(log.read_text(errors="replace")).strip().splitlines()
            failure = replace(failure, details="\n".join(lines[-_TRACEBACK_LINES:]))
        return failure


async def _run_on(
    client: "_ReportingClient", manager: AsyncKernelManager, **process: Any
) -> NotebookFailure | None:
    task = asyncio.ensure_future(_start_and_execute(client, manager, **process))
    interruption = _Interruption(manager, task)
    try:
        with interruption.on_signals():
            await task
    except CellTimeoutError as error:
        await manager.interrupt_kernel()
        await asyncio.sleep(_GRACE_S / 2)  # a training run frees its executors
        return client.failure(error, was_interrupted=False)
    except (CellExecutionError, DeadKernelError, RuntimeError) as error:
        return client.failure(error, was_interrupted=interruption.has_begun)
    except asyncio.CancelledError:
        return client.failure(None, was_interrupted=True)
    finally:
        await _end_kernel(manager)
    return None


async def _start_and_execute(
    client: "_ReportingClient", manager: AsyncKernelManager, **process: Any
) -> None:
    await manager.start_kernel(**process)
    channels = manager.client()
    channels.start_channels()
    client.kc = channels
    try:
        await channels.wait_for_ready(timeout=_KERNEL_START_TIMEOUT_S)
        client.nb.cells.append(new_code_cell(_SETTLE))
        try:
            await client.async_execute()
        finally:
            client.nb.cells.pop()
    finally:
        channels.stop_channels()


async def _end_kernel(manager: AsyncKernelManager) -> None:
    """Shut the kernel down, or kill it if that fails."""
    if manager.has_kernel:
        await manager.shutdown_kernel(now=not await manager.is_alive())
    await ensure_async(manager.cleanup_resources())


class _ThisInterpreter(KernelSpecManager):
    """Knows one kernel: ipykernel on the interpreter that runs this."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(resource_dir="", **get_kernel_dict())


class _Interruption:
    """Turns Ctrl-C into an interrupt of the cell, and, if that does not help, into an end."""

    def __init__(self, manager: AsyncKernelManager, task: "asyncio.Future[None]") -> None:
        self.has_begun = False
        self._manager, self._task = manager, task
        self._interrupting: asyncio.Future[None] | None = None

    @contextlib.contextmanager
    def on_signals(self) -> Any:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self._begin)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            if self._interrupting is not None:
                self._interrupting.cancel()

    def _begin(self) -> None:
        if self.has_begun:
            self._task.cancel()
            return
        self.has_begun = True
        self._interrupting = asyncio.ensure_future(self._interrupt())

    async def _interrupt(self) -> None:
        if self._manager.has_kernel:
            await self._manager.interrupt_kernel()
            await asyncio.sleep(_GRACE_S)
        self._task.cancel()


class _ReportingClient(NotebookClient):
    """Prints the running cell, its output, and the progress of training runs."""

    def __init__(
        self,
        notebook: NotebookNode,
        manager: AsyncKernelManager,
        *,
        timeout_s: float | None,
        say: Callable[[str], None],
    ) -> None:
        # No `coalesce_streams`: it moves outputs, and nbclient then updates the wrong ones.
        super().__init__(notebook, km=manager, timeout=timeout_s)
        self._say = say
        self._titles = _titles(notebook)
        self._code_cells = [
            index
            for index, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and cell.source.strip()
        ]
        self._number = 0  # of the running cell among the code cells, from 1
        self._cell_began_s = 0.0
        self._unfinished_line = ""
        self.on_cell_execute = self._cell_begins
        self.on_cell_executed = self._cell_ends

    def failure(self, error: Exception | None, *, was_interrupted: bool) -> NotebookFailure:
        """What to tell about the cell that ran when `error` came up."""
        index = self._code_cells[self._number - 1] if self._number else None
        reason, details = _described(error, was_interrupted=was_interrupted)
        return NotebookFailure(
            cell=self._number,
            source="" if index is None else _beginning(self.nb.cells[index]),
            reason=reason,
            details=details,
            was_interrupted=was_interrupted,
        )

    @asynccontextmanager
    async def async_setup_kernel(self, **_options: Any) -> AsyncGenerator[None, None]:
        """Nothing: `_run` starts and ends the kernel and handles the signals."""
        yield

    def _cell_begins(self, *, cell: NotebookNode, cell_index: int, **_more: Any) -> None:
        if cell_index not in self._titles:
            return  # the settling cell
        self._number += 1
        self._cell_began_s = time.monotonic()
        self._say(f"[{self._number}/{len(self._code_cells)}] {self._titles[cell_index]}")

    def _cell_ends(self, *, cell: NotebookNode, cell_index: int, **_more: Any) -> None:
        self._pass_on("\n" if self._unfinished_line else "")
        seconds = time.monotonic() - self._cell_began_s
        if cell_index in self._titles and seconds >= 1:
            self._say(f"      {duration_text(seconds)}")

    def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "stream" and msg["content"].get("name") == "stdout":
            self._pass_on(msg["content"]["text"])
        return super().output(outs, msg, display_id, cell_index)

    def handle_comm_msg(self, outs: Any, msg: Any, cell_index: int) -> None:
        super().handle_comm_msg(outs, msg, cell_index)
        # The chart's description for those who cannot see it: here it is the progress. It
        # changes every two seconds at most.
        if summary := msg["content"]["data"].get("state", {}).get("summary"):
            self._say(f"      {summary}")

    def _pass_on(self, text: str) -> None:
        *lines, self._unfinished_line = (self._unfinished_line + text).split("\n")
        for line in lines:
            # Of a line that rewrote itself (a progress bar) only the last state is kept.
            self._say(f"      {plain(line.rstrip(chr(13)).rsplit(chr(13), 1)[-1])}".rstrip())


def _beginning(cell: NotebookNode) -> str:
    return "\n".join(cell.source.strip().splitlines()[:8])


def _titles(notebook: NotebookNode) -> dict[int, str]:
    """What to call each code cell: the heading right above it, or its first line."""
    titles: dict[int, str] = {}
    heading = ""
    for index, cell in enumerate(notebook.cells):
        lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
        if cell.cell_type == "markdown":
            headings = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
            heading = headings[-1] if headings else heading
        elif cell.cell_type == "code" and lines:
            titles[index] = heading or lines[0].lstrip("# ")[:70]
            heading = ""
    return titles


def _described(error: Exception | None, *, was_interrupted: bool) -> tuple[str, str]:
    """An error as (one line, last lines of the traceback)."""
    if was_interrupted:
        return "interrupted", ""
    if isinstance(error, CellExecutionError):
        # nbclient repeats the cell first; IPython's own part begins after a long rule.
        traceback = re.split(r"^-{60,}$", plain(error.traceback), flags=re.MULTILINE)[-1]
        lines = traceback.strip().splitlines()
        return plain(f"{error.ename}: {error.evalue}"), "\n".join(lines[-_TRACEBACK_LINES:])
    if isinstance(error, CellTimeoutError):
        return "the cell took longer than `--timeout-s` allows", ""
    if isinstance(error, DeadKernelError):
        return "the kernel died; the most frequent cause is a lack of memory", ""
    return f"{type(error).__name__}: {error}", ""


def has_been_executed(notebook: NotebookNode) -> bool:
    """Whether a code cell has a number or an output; also True if there is no code at all."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    return not cells or any(cell.get("execution_count") or cell.outputs for cell in cells)


def failure_in(notebook: NotebookNode) -> NotebookFailure | None:
    """The first error among the outputs."""
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        number += 1
        for output in cell.outputs:
            if output.output_type == "error":
                lines = plain("\n".join(output.get("traceback", []))).splitlines()
                return NotebookFailure(
                    cell=number,
                    source=_beginning(cell),
                    reason=plain(f"{output.get('ename', '')}: {output.get('evalue', '')}"),
                    details="\n".join(lines[-_TRACEBACK_LINES:]),
                )
    return None


def time_taken(notebook: NotebookNode) -> str:
    """From the first cell's beginning to the last one's end, in words; empty if not recorded."""
    moments: list[datetime] = []
    for cell in notebook.cells:
        recorded = cell.metadata.get("execution", {})
        for key in ("iopub.execute_input", "shell.execute_reply"):
            try:
                moments.append(datetime.fromisoformat(str(recorded[key]).replace("Z", "+00:00")))
            except (KeyError, ValueError):
                continue
    if len(moments) < 2:
        return ""
    return duration_text((max(moments) - min(moments)).total_seconds())
