"""A trainer process that has no TensorFlow, and ends, or answers, as the request's run says."""

import os
import signal
import sys

from sparkwright.workers import _trainer
from sparkwright.workers._mark import marked
from sparkwright.workers.requests import Answer
from sparkwright.workers.work import Span


class StubTrainer(_trainer.Trainer):
    def set_up(self, cores, backend="tensorflow"):
        """Nothing to start."""


class StubService(_trainer.Service):
    def answer(self, request, gone):
        if request.run == "ends":
            print("2026-01-01 00:00:00.000001: I tensorflow/core: this is oneDNN", flush=True)
            raise KeyboardInterrupt("of the stub")
        if "training" in request.run:
            with marked(Span(2, 1, 5, 9)):
                if request.run == "dies training":
                    os.kill(os.getpid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return Answer(fields={"run": request.run})


if __name__ == "__main__":  # in place of `python -m sparkwright.workers._trainer …`
    _trainer.Trainer, _trainer.Service = StubTrainer, StubService
    _trainer.main(sys.argv[3:])
