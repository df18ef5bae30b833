"""What a worker does with the verdict on an epoch; ring, line and network are stand-ins."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkwright.errors import NetworkError
from sparkwright.mesh.framing import Message
from sparkwright.workers._member import RunMember
from sparkwright.workers._phases import NO_PHASES
from sparkwright.workers.protocol import Progress


class Line:
    """The driver answers with what is left of `answers`."""

    def __init__(self, *answers: Message) -> None:
        self.answers, self.sent = list(answers), list[tuple[str, Any]]()

    def answer(self, kind: str, *, epoch: int, timeout_s: float) -> Message | None:
        assert (epoch, timeout_s) == (3, 5.0)
        if not self.answers:
            return None
        assert self.answers[0].kind == kind
        return self.answers.pop(0)

    def send(self, kind: str, fields: dict[str, Any], payload: Any = ()) -> None:
        self.sent.append((kind, fields["epoch"]))
        del payload


class Ring:
    """Of the first worker."""

    rank = 0

    def all_gather(self, content: bytes) -> list[bytes]:
        return [content, b""]


def member(line: Line) -> Any:
    found: Any = object.__new__(RunMember)
    found.settings = SimpleNamespace(
        worker=0, master=SimpleNamespace(mesh=SimpleNamespace(peer_timeout_s=5.0))
    )
    found.control, found.progress = line, Progress(epoch=3, opened=3, validated=3)
    found.phases = NO_PHASES
    counters = [np.zeros(1)]
    found.replica = SimpleNamespace(state=SimpleNamespace(own=counters), uses_xla=False)
    found.average, found.extras = np.zeros(4), lambda: counters
    return found


def verdict(*, ends: bool, keep: bool) -> Message:
    return Message(kind="verdict", fields={"epoch": 3, "ends": ends, "keep": keep})


KEPT = Message(kind="kept", fields={"epoch": 3})


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_first_worker_requests_the_verdict_and_sends_the_best_state(ends: bool, keep: bool) -> None:
    line = Line(verdict(ends=ends, keep=keep), *[KEPT] * keep)
    one = member(line)
    assert one.wait_for_verdict(Ring()) == ends
    assert line.sent == [("best", 3)] * keep
    assert line.answers == []
    # An end is not written down: who is asked again has to hear it again.
    assert one.progress.judged == (0 if ends else 3)


@pytest.mark.parametrize("answers", [(), (verdict(ends=False, keep=True),)])
def test_verdict_timeout_names_the_worker_and_epoch(answers: tuple[Message, ...]) -> None:
    one = member(Line(*answers))
    with pytest.raises(NetworkError, match=r"worker 0.*5 s for the driver's decision on epoch 3\."):
        one.wait_for_verdict(Ring())
    assert one.progress.judged == 0
