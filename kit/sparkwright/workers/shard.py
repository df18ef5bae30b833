"""A worker's examples in memory-mapped column files, readable by other workers."""

import contextlib
import json
import shutil
import socket
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.data.texts import TEXT, TextColumn, is_text, to_utf8
from sparkwright.errors import DataError, NetworkError, WorkerError
from sparkwright.mesh.connection import Address, Connection
from sparkwright.mesh.framing import Message
from sparkwright.mesh.port import PeerPort

from ._wire import pack, unpack

_INDEX = "shard.json"
_ORDER = "order.npy"
INTRODUCTION = "shard"
_MAX_ROWS_BYTES = 64 << 20
# Requests that were made before an error fail with it, and do not wait for a connection each.
_RETRY_AFTER_S = 5.0


class ShardWriter:
    """Write DataSets to a folder, with one raw file per column.

    Columns are contiguous, so a random minibatch is one NumPy gather per column from a memory map.
    The file of a text column holds the start and end offsets of each text in a second, UTF-8 file.
    """

    def __init__(self, folder: Path, *, worker: int) -> None:
        """Create `folder`; a failing disk raises WorkerError, as a retry elsewhere may succeed."""
        self.folder, self.worker = folder, worker
        with disk_errors(self.folder, worker=self.worker):
            folder.mkdir(parents=True, mode=0o700)
        self.rows = 0
        self._columns: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._files: dict[str, BinaryIO] = {}
        self._arrivals: list[tuple[tuple[int, ...], int, int]] = []  # (key, first row, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            if kind is None:
                self.close()
        except BaseException:
            kind = WorkerError
            raise
        finally:
            if kind is not None:
                for file in self._files.values():
                    with contextlib.suppress(OSError):
                        file.close()
                shutil.rmtree(self.folder, ignore_errors=True)

    def append(self, dataset: DataSet, *, key: tuple[int, ...] = ()) -> None:
        """Append examples; they are read in the order of `key`: shuffles arrive in any order."""
        if not len(dataset):
            return
        columns = dataset.columns()
        found = {name: (a.dtype, a.shape[1:]) for name, a in columns.items()}
        if not self._columns:
            self._columns = found
            with disk_errors(self.folder, worker=self.worker):
                for number, array in enumerate(columns.values()):
                    for file in (f"{number}.bin", f"{number}.utf8")[: 1 + is_text(array)]:
                        self._files[file] = (self.folder / file).open("wb", buffering=1 << 20)
        elif found != self._columns:
            raise DataError(
                "all examples must have the same columns, dtypes and shapes. Received: "
                f"{_describe(found)} after {self.rows} examples with {_describe(self._columns)}. "
                "Pad sequences to equal length with `data.padded()`."
            )
        with disk_errors(self.folder, worker=self.worker):
            for number, array in enumerate(columns.values()):
                if is_text(array):
                    edges, content = to_utf8(array)
                    array = edges + self._files[f"{number}.utf8"].tell()
                    self._files[f"{number}.utf8"].write(content)
                self._files[f"{number}.bin"].write(np.ascontiguousarray(array).data.cast("B"))
        self._arrivals.append((key, self.rows, len(dataset)))
        self.rows += len(dataset)

    def close(self) -> None:
        """Write the index; afterwards a `Shard` can open the folder."""
        index = {
            "rows": self.rows,
            "columns": [
                [name, dtype.str, list(shape)] for name, (dtype, shape) in self._columns.items()
            ],
        }
        in_order = sorted(self._arrivals, key=lambda arrival: arrival[0])
        with disk_errors(self.folder, worker=self.worker):
            for file in self._files.values():
                file.close()
            self._files = {}
            if in_order != self._arrivals:
                rows = [np.arange(first, first + count) for _, first, count in in_order]
                np.save(self.folder / _ORDER, np.concatenate(rows))
            (self.folder / _INDEX).write_text(json.dumps(index))


@contextlib.contextmanager
def disk_errors(folder: Path, *, worker: int) -> Generator[None]:
    """Convert OSError to WorkerError with the folder, machine and free space."""
    try:
        yield
    except OSError as error:
        free = "unknown"
        with contextlib.suppress(OSError):
            free = f"{shutil.disk_usage(folder.parent).free >> 20:,} MiB"
        raise WorkerError(
            worker=worker,
            host=socket.gethostname(),
            reason=f"the examples of worker {worker} could not be written to "
            f"{folder} on {socket.gethostname()}: {error.strerror or error}. Free space: "
            f"{free}. Free disk space, or set a larger disk: `spark.local.dir`, on YARN "
            "`yarn.nodemanager.local-dirs`, without Spark TMPDIR.",
        ) from error


class Shard:
    """The memory-mapped files of a `ShardWriter`."""

    def __init__(self, folder: Path, *, consume: bool = False) -> None:
        """Map the files; `consume` removes them, so that none remain if the process is killed."""
        index = json.loads((folder / _INDEX).read_text())
        self.rows = int(index["rows"])  # number of examples
        # Flat name -> (rows, ...) read-only array or `TextColumn`; empty without rows.
        self.columns: dict[str, Any] = {}
        for number, (name, dtype, shape) in enumerate(index["columns"]):
            path, shape = folder / f"{number}.bin", (self.rows, *shape)
            if np.dtype(dtype) == TEXT:
                edges = np.memmap(path, np.int64, "r", shape=(*shape, 2))
                path = path.with_suffix(".utf8")  # an empty file cannot be mapped
                content = np.memmap(path, np.uint8, "r") if path.stat().st_size else b""
                self.columns[name] = TextColumn(edges, content)
            else:
                self.columns[name] = np.memmap(path, np.dtype(dtype), "r", shape=shape)
        order = folder / _ORDER
        self._order: NDArray[np.int64] | None = np.load(order) if order.exists() else None
        if consume:
            shutil.rmtree(folder, ignore_errors=True)

    def gather(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the columns of the examples `rows`, each of shape (*rows.shape, *example shape).

        Text is UTF-8 bytes, as in TensorFlow.
        """
        if self._order is not None:
            rows = self._order[rows]
        return {
            name: array[rows] if is_text(array) else np.take(array, rows, axis=0)
            for name, array in self.columns.items()
        }

    def dataset(self, rows: slice) -> DataSet:
        """Return a slice of the examples, in order of arrival, without copying."""
        return DataSet.from_columns({name: array[rows] for name, array in self.columns.items()})


def _describe(columns: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in columns.items())


class ShardServer:
    """Serve examples of a shard to other workers until closed."""

    def __init__(self, shard: Shard, port: PeerPort) -> None:
        self._shard, self._port = shard, port
        port.on(INTRODUCTION, self._serve)

    def close(self) -> None:
        """Close all connections."""
        self._port.off(INTRODUCTION)

    def _serve(self, connection: Connection, _: Message) -> None:
        """Answer the requests of one connection until it closes."""
        try:
            while (message := connection.receive(max_payload_bytes=_MAX_ROWS_BYTES)) is not None:
                rows = np.frombuffer(message.payload, np.int64).reshape(message.fields["shape"])
                if rows.size and not (rows.min() >= 0 and rows.max() < self._shard.rows):
                    raise NetworkError(f"rows must be from 0 to {self._shard.rows - 1}.")
                connection.send("examples", *pack(self._shard.gather(rows), own_code=False))
        except (NetworkError, OSError, ValueError, KeyError):
            pass  # reported by the requesting worker
        finally:
            connection.close()


class RemoteShard:
    """Another worker's shard, read over the network."""

    def __init__(
        self, address: Address, *, worker: int, rows: int, port: PeerPort,
        connect_timeout_s: float, peer_timeout_s: float,
    ) -> None:  # fmt: skip
        """Store the address; `gather` connects."""
        self.rows = rows
        self._address, self._worker, self._port = address, worker, port
        self._connect_timeout_s, self._peer_timeout_s = connect_timeout_s, peer_timeout_s
        self._connection: Connection | None = None
        self._is_closed = False
        self._retry_s = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether calls fail at once, because one has just failed."""
        return time.monotonic() < self._retry_s

    def gather(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the columns of `rows`; see `Shard.gather`.

        A cut of the network may end an idle connection, although the worker is still there: some
        seconds after an error, a call connects again.
        """
        message = self._ask(rows)
        if message is None:
            raise NetworkError(
                f"worker {self._worker} on {self._address[0]} did not send its examples "
                f"within {self._peer_timeout_s:g} s."
            )
        return unpack(message, own_code=False)

    def close(self) -> None:
        """Close permanently; thread-safe."""
        self._is_closed = True
        if (connection := self._connection) is not None:
            connection.close()

    def _ask(self, rows: NDArray[np.int64]) -> Message | None:
        """Return the answer; None: it failed."""
        message = None
        with contextlib.suppress(OSError, NetworkError):  # a time-out is an OSError
            connection = self._connected()
            connection.send("rows", {"shape": rows.shape}, (np.ascontiguousarray(rows),))
            message = connection.receive()
        if message is None and not self.has_failed:
            self._retry_s = time.monotonic() + _RETRY_AFTER_S
            broken, self._connection = self._connection, None
            if broken is not None:
                broken.close()
        return message

    def _connected(self) -> Connection:
        if self._is_closed or self.has_failed:
            raise NetworkError(f"worker {self._worker} does not send its examples.")
        if self._connection is None:
            connection = self._port.connect(
                self._address,
                worker=self._worker,
                timeout_s=self._connect_timeout_s,
                give_up=lambda: self._is_closed,
            )
            self._connection = connection
            connection.send(INTRODUCTION)
            connection.socket.settimeout(self._peer_timeout_s)
        return self._connection


class ShardSource:
    """The other workers' shards; changes with the group."""

    def __init__(
        self, port: PeerPort | None, *, connect_timeout_s: float, peer_timeout_s: float
    ) -> None:
        """Connect through `port`; None if there are no other workers."""
        self._port = port
        self._connect_timeout_s, self._peer_timeout_s = connect_timeout_s, peer_timeout_s
        self._shards: dict[int, tuple[Address, RemoteShard]] = {}
        self.rows: Sequence[int] = ()  # of every worker; empty while unknown

    def use(self, addresses: dict[int, Address], rows: Sequence[int]) -> None:
        """Set each worker's address and number of examples; close changed connections."""
        self.rows = rows
        for worker, (address, shard) in list(self._shards.items()):
            if addresses.get(worker) != address or shard.has_failed:
                shard.close()
                del self._shards[worker]
        for worker, address in addresses.items():
            if worker not in self._shards:
                assert self._port is not None
                remote = RemoteShard(
                    address,
                    worker=worker,
                    rows=rows[worker],
                    port=self._port,
                    connect_timeout_s=self._connect_timeout_s,
                    peer_timeout_s=self._peer_timeout_s,
                )
                self._shards[worker] = address, remote

    def of(self, worker: int) -> RemoteShard:
        """Return the shard of `worker`."""
        if worker not in self._shards:
            raise NetworkError(f"worker {worker} has left the group; its data is unavailable.")
        return self._shards[worker][1]

    def close(self) -> None:
        """Close all connections."""
        for _, shard in self._shards.values():
            shard.close()
        self._shards = {}
