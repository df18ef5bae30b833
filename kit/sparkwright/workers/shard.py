"""A worker's examples: memory-mapped column files, which helping workers may read from."""

import contextlib
import json
import shutil
import socket
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


class ShardWriter:
    """Appends DataSets to a folder, one raw file a column, so that each column is contiguous.

    Random minibatches are then one NumPy gather from a memory map; record batches would need one
    gather a batch and column. The file of a text column holds where each text begins and ends in
    another file, of UTF-8.
    """

    def __init__(self, folder: Path, *, worker: int) -> None:
        """Write the examples of `worker` into `folder`, which is created.

        Raises:
            WorkerError: here and later, if the disk is full or fails. Another attempt may come to
                another machine, whose disk has room.
        """
        self.folder, self.worker = folder, worker
        with self._disk_errors():
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
        """Add examples.

        Args:
            dataset: the examples.
            key: their place; pieces are read back in the order of keys, not of arrival, because a
                shuffle delivers in whatever order it likes.

        Raises:
            DataError: if their columns, dtypes or shapes differ from those before.
            WorkerError: see `__init__`.
        """
        if not len(dataset):
            return
        columns = dataset.columns()
        found = {name: (a.dtype, a.shape[1:]) for name, a in columns.items()}
        if not self._columns:
            self._columns = found
            with self._disk_errors():
                for number, array in enumerate(columns.values()):
                    for file in (f"{number}.bin", f"{number}.utf8")[: 1 + is_text(array)]:
                        self._files[file] = (self.folder / file).open("wb", buffering=1 << 20)
        elif found != self._columns:
            raise DataError(
                "all examples must have the same columns, dtypes and shapes. Received: "
                f"{_describe(found)} after {self.rows} examples with {_describe(self._columns)}. "
                "Bring sequences of different length to one with `data.padded()`."
            )
        with self._disk_errors():
            for number, array in enumerate(columns.values()):
                if is_text(array):
                    edges, content = to_utf8(array)
                    array = edges + self._files[f"{number}.utf8"].tell()
                    self._files[f"{number}.utf8"].write(content)
                self._files[f"{number}.bin"].write(np.ascontiguousarray(array).data.cast("B"))
        self._arrivals.append((key, self.rows, len(dataset)))
        self.rows += len(dataset)

    def close(self) -> None:
        """Finish; the folder can be opened as a `Shard` afterwards."""
        index = {
            "rows": self.rows,
            "columns": [
                [name, dtype.str, list(shape)] for name, (dtype, shape) in self._columns.items()
            ],
        }
        in_order = sorted(self._arrivals, key=lambda arrival: arrival[0])
        with self._disk_errors():
            for file in self._files.values():
                file.close()
            self._files = {}
            if in_order != self._arrivals:
                rows = [np.arange(first, first + count) for _, first, count in in_order]
                np.save(self.folder / _ORDER, np.concatenate(rows))
            (self.folder / _INDEX).write_text(json.dumps(index))

    @contextlib.contextmanager
    def _disk_errors(self) -> Generator[None]:
        """Say which disk of which machine it is, and how much room there is."""
        try:
            yield
        except OSError as error:
            free = "unknown"
            with contextlib.suppress(OSError):
                free = f"{shutil.disk_usage(self.folder.parent).free >> 20:,} MiB"
            raise WorkerError(
                worker=self.worker,
                host=socket.gethostname(),
                reason=f"the examples of worker {self.worker} could not be written to "
                f"{self.folder} on {socket.gethostname()}: {error.strerror or error}. Free there: "
                f"{free}. Make room, or name a larger disk: `spark.local.dir`, on YARN "
                "`yarn.nodemanager.local-dirs`, without Spark TMPDIR.",
            ) from error


class Shard:
    """What a `ShardWriter` wrote, memory-mapped.

    Attributes:
        rows: how many examples.
        columns: flat name -> (rows, ...) read-only array, or `TextColumn`; empty when there are no
            rows.
    """

    def __init__(self, folder: Path, *, consume: bool = False) -> None:
        """Map the files of `folder`.

        Args:
            folder: what a `ShardWriter` wrote.
            consume: remove them at once, which leaves the maps as they are. So nothing is left
                behind, however the processes end; default False.
        """
        index = json.loads((folder / _INDEX).read_text())
        self.rows = int(index["rows"])
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
        """Columns of the examples `rows`: each array has the shape of `rows`, then an example's.

        Text is UTF-8 bytes, as TensorFlow takes it.
        """
        if self._order is not None:
            rows = self._order[rows]
        return {
            name: array[rows] if is_text(array) else np.take(array, rows, axis=0)
            for name, array in self.columns.items()
        }

    def dataset(self, rows: slice) -> DataSet:
        """The examples of a slice, in order of arrival, without copying."""
        return DataSet.from_columns({name: array[rows] for name, array in self.columns.items()})


def _describe(columns: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in columns.items())


class ShardServer:
    """Answers requests for examples of a shard until closed."""

    def __init__(self, shard: Shard, port: PeerPort) -> None:
        self._shard, self._port = shard, port
        port.on(INTRODUCTION, self._serve)

    def close(self) -> None:
        """Hang up on all helpers."""
        self._port.off(INTRODUCTION)

    def _serve(self, connection: Connection, _: Message) -> None:
        """Answer one helper until it hangs up.

        A request's payload is an int64 array of row numbers of any shape; the answer is what
        `gather` returns for them.
        """
        try:
            while (message := connection.receive(max_payload_bytes=_MAX_ROWS_BYTES)) is not None:
                rows = np.frombuffer(message.payload, np.int64).reshape(message.fields["shape"])
                if rows.size and not (rows.min() >= 0 and rows.max() < self._shard.rows):
                    raise NetworkError(f"rows must lie in 0..{self._shard.rows - 1}.")
                connection.send("examples", *pack(self._shard.gather(rows), own_code=False))
        except (NetworkError, OSError, ValueError, KeyError):
            pass  # the helper reports its own side of it
        finally:
            connection.close()


class RemoteShard:
    """Another worker's shard, asked for over the network.

    Attributes:
        rows: how many examples it has.
    """

    def __init__(
        self, address: Address, *, worker: int, rows: int, port: PeerPort,
        connect_timeout_s: float, peer_timeout_s: float,
    ) -> None:  # fmt: skip
        """Nothing is connected before the first `gather`."""
        self.rows = rows
        self._address, self._worker, self._port = address, worker, port
        self._connect_timeout_s, self._peer_timeout_s = connect_timeout_s, peer_timeout_s
        self._connection: Connection | None = None
        self.gone = False

    def gather(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """As `Shard.gather`.

        Raises:
            NetworkError: if its worker is gone or does not answer in time.
        """
        message: Message | None = None
        try:
            if not self.gone:
                message = self._ask(rows)
        except (OSError, NetworkError):  # a time-out is an OSError
            message = None
        if message is None:
            self.close()
            raise NetworkError(
                f"worker {self._worker} on {self._address[0]} did not send its examples "
                f"within {self._peer_timeout_s:g} s."
            )
        return unpack(message, own_code=False)

    def close(self) -> None:
        """Hang up, for good; from any thread."""
        self.gone = True
        connection = self._connection
        if connection is not None:
            connection.close()

    def _ask(self, rows: NDArray[np.int64]) -> Message | None:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._port.connect(
                self._address,
                worker=self._worker,
                timeout_s=self._connect_timeout_s,
                give_up=lambda: self.gone,
            )
            connection.send(INTRODUCTION)
            connection.socket.settimeout(self._peer_timeout_s)
        connection.send("rows", {"shape": rows.shape}, (np.ascontiguousarray(rows),))
        return connection.receive()


class ShardSource:
    """Where other workers' shards are; changes with the group.

    Attributes:
        rows: examples of every worker; empty while unknown.
    """

    def __init__(
        self, port: PeerPort | None, *, connect_timeout_s: float, peer_timeout_s: float
    ) -> None:
        """Reach other workers from `port`; None: there is nobody to be reached."""
        self._port = port
        self._connect_timeout_s, self._peer_timeout_s = connect_timeout_s, peer_timeout_s
        self._shards: dict[int, tuple[Address, RemoteShard]] = {}
        self.rows: Sequence[int] = ()

    def use(self, addresses: dict[int, Address], rows: Sequence[int]) -> None:
        """Know where each worker is, and how many examples each has."""
        self.rows = rows
        for worker, (address, shard) in list(self._shards.items()):
            if addresses.get(worker) != address or shard.gone:
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
        """The shard of `worker`.

        Raises:
            NetworkError: if that worker is not in the group.
        """
        if worker not in self._shards:
            raise NetworkError(f"worker {worker} has left the group, and its data with it.")
        return self._shards[worker][1]

    def close(self) -> None:
        """Hang up on all."""
        for _, shard in self._shards.values():
            shard.close()
        self._shards = {}
