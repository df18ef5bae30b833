"""Makes the kind of worker that a request asks for."""

from pathlib import Path

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.mesh._port import PeerPort

from ._averaging import AveragingWorker
from ._control import ControlLine
from ._member import RunMember
from ._phases import NO_PHASES, PhaseRecorder
from ._replica import Replica
from ._requests import TrainRequest
from ._shard import Shard
from ._sharing import SharingWorker

Worker = AveragingWorker | SharingWorker


def worker_of(
    request: TrainRequest,
    replica: Replica,
    control: ControlLine,
    port: PeerPort,
    *,
    device: str = "",
    phases: PhaseRecorder = NO_PHASES,
) -> Worker:
    """The worker for `request`, which trains `replica` on `device` and tells `phases` of it.

    Raises:
        DataError: if the data does not fit the network.
    """
    settings = request.settings
    replica.share_updates(None)  # what an earlier run may have wanted
    averaging = isinstance(settings.master, ParameterAveragingTrainingMaster)
    member = RunMember(
        settings=settings,
        replica=replica,
        shard=Shard(Path(request.shard), consume=request.consume),
        validation=Shard(Path(request.validation), consume=request.consume),
        control=control,
        port=port,
        secret=request.secret,
        save_updater=not averaging or settings.master.save_updater,
        device=device,
        phases=phases,
    )
    if averaging:
        return AveragingWorker(settings, member)
    return SharingWorker(settings, member, port, secret=request.secret)
