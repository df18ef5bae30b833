"""Workers of a ParallelWrapper as threads of this process instead of processes of their own."""

import contextlib
import shutil
import tempfile
import threading
import time
import uuid
from pathlib import Path

import sparkwright as sw
from sparkwright.mesh.framing import Message
from sparkwright.workers._serving import Service
from sparkwright.workers._wire import pack, unpack
from sparkwright.workers.requests import Answer

_free = []  # warm, for later wrappers
_lock = threading.Lock()


class InProcessPool:
    """In place of a `TrainerPool`; requests and answers travel as they do to a process."""

    def __init__(self, *, owner, secret):
        self._folder = Path(tempfile.mkdtemp(prefix="sparkwright-"))

    @contextlib.contextmanager
    def borrow(self, *, device, cores, backend, at_most):
        with _lock:
            service = (
                _free.pop() if _free else Service(device.upper(), None, ready_s=time.monotonic())
            )
        try:
            yield InProcessTrainer(service)
        finally:
            with _lock:
                _free.append(service)

    def scratch(self):
        return self._folder / f"shard-{uuid.uuid4().hex}"

    def close(self):
        shutil.rmtree(self._folder, ignore_errors=True)


class InProcessTrainer:
    """In place of a `BorrowedTrainer`."""

    def __init__(self, service):
        self._service, self._gone = service, threading.Event()

    def ask(self, request):
        request = sent(request, own_code=True)
        try:
            answer = self._service.answer(request, self._gone)
        except Exception as error:
            if not isinstance(error, sw.SparkwrightError):
                self._service.discard(request)
            answer = Answer.of_error(error)
        return sent(answer, own_code=False)

    def close(self):
        self._gone.set()


def sent(value, *, own_code):
    """`value` as the other side of a socket gets it."""
    fields, payload = pack(value, own_code=own_code)
    content = bytearray(b"".join(bytes(memoryview(piece)) for piece in payload))
    return unpack(Message(kind="x", fields=fields, payload=content), own_code=own_code)


def fit(model, master, data, **options):
    """A finished run of `model`."""
    with sw.ParallelWrapper(model, master, cores_per_worker=1) as wrapper:
        run = wrapper.start(data, display=False, **options)
        run.wait(120)
    return run
