"""The phases of driver and workers: codes, names, meanings, colors.

Phases are sent and stored as their codes, one byte each. Codes are never reassigned, so that
earlier files stay readable.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

Group = Literal["start-up", "data", "compute", "communication", "waiting", "saving"]


class PhaseCode(IntEnum):
    """Codes of the phases; phases of the driver only begin at 32."""

    QUEUED = 0
    SHARD = 1
    TENSORFLOW = 2
    BUILD = 3
    TRACE = 4
    FIRST_DATA = 5
    DATA = 6
    COMPUTE = 7
    ENCODE = 8
    SEND = 9
    WAIT = 10
    AVERAGE = 11
    APPLY = 12
    VALIDATE = 13
    CHECKPOINT = 14
    DELIVER = 15
    STATE = 16
    ASSEMBLE = 17
    WORK = 18
    OVERLAP = 19
    HISTOGRAMS = 20

    COUNT = 32
    LAYOUT = 33
    SUBMIT = 34
    GATHER = 35
    TRAIN = 36
    FINISH = 37
    SPLIT = 38
    MAP_PARTITIONS = 39
    AGGREGATE = 40
    PROCESS_PARAMS = 41
    BROADCAST = 42
    EXPORT = 43


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A kind of work or waiting.

    Attributes:
        code: from 0 to 255; see `PhaseCode`.
        name: identifier in tables, such as "first_data".
        label: display name, such as "first data".
        meaning: description in one line.
        group: the group it is counted in.
        color: color in pictures, as "#rrggbb".
        encloses: whether it contains other phases of the same lane; such phases are not summed.
        dl4j: keys of the same or closest measurements in Deeplearning4j.
    """

    code: int
    name: str
    label: str
    meaning: str
    group: Group
    color: str
    encloses: bool = False
    dl4j: tuple[str, ...] = ()

    @property
    def dl4j_names(self) -> tuple[str, ...]:
        """Deeplearning4j's short names for `dl4j`."""
        return tuple(DL4J_NAMES[key] for key in self.dl4j)


# Deeplearning4j's keys and short names, and the same or closest phases.
_DL4J = """\
parameterAveragingMasterExportTimesMs Export EXPORT
ParameterAveragingMasterCountRddSizeTimesMs CountRDD COUNT
ParameterAveragingMasterBroadcastCreateTimesMs CreateBroadcast BROADCAST
ParameterAveragingMasterRepartitionTimesMs Repartition LAYOUT
ParameterAveragingMasterFitTimesMs Fit TRAIN
ParameterAveragingMasterSplitTimesMs Split SPLIT
ParameterAveragingMasterMapPartitionsTimesMs MapPart MAP_PARTITIONS
ParameterAveragingMasterAggregateTimesMs Aggregate AVERAGE AGGREGATE
ParameterAveragingMasterProcessParamsUpdaterTimesMs ProcessParams APPLY PROCESS_PARAMS
WorkerFlatMapTotalTimeMs Total WORK
WorkerFlatMapGetInitialModelTimeMs GetInitModel BUILD STATE
WorkerFlatMapDataSetGetTimesMs GetDataSet FIRST_DATA DATA
WorkerFlatMapProcessMiniBatchTimesMs ProcessBatch TRACE COMPUTE
ParameterAveragingWorkerBroadcastGetValueTimeMs BroadcastGet STATE
ParameterAveragingWorkerInitTimeMs ModelInit BUILD
ParameterAveragingWorkerFitTimesMs Fit TRACE COMPUTE
"""
_DL4J_ROWS = [line.split() for line in _DL4J.splitlines()]
DL4J_NAMES: dict[str, str] = {key: name for key, name, *_ in _DL4J_ROWS}

# Name, label, group and color; then the meaning. Tables and legends use this order.
_TABLE = """\
QUEUED; queued; waiting; #8c6239
    Spark has no free slot for the worker's task yet.
SHARD; data in; data; #8a5200
    The task writes its partition to files that the worker maps.
TENSORFLOW; TensorFlow start; start-up; #5e3c99
    The worker's process starts and loads TensorFlow; later runs reuse it.
BUILD; model build; start-up; #8156b0
    The network is made from its description.
STATE; starting state; start-up; #a05195
    The parameters with which training begins come from the driver or a peer.
ASSEMBLE; waiting for all; waiting; #b5483a
    The worker is ready and waits until the others have come, too.
TRACE; tracing; start-up; #b370b8
    The first compiled call: TensorFlow traces and compiles the step.
FIRST_DATA; first data; data; #a86200
    The worker waits for its first minibatches; nothing could be fetched ahead.
DATA; get batch; data; #c77900
    The worker waits for its next minibatches.
COMPUTE; compute; compute; #07599f
    The compiled step trains minibatches.
ENCODE; encode; communication; #1c998c
    What was learned is encoded to a short message.
SEND; send; communication; #006842
    The message is handed to the network.
WAIT; wait for peers; waiting; #bb4a00
    The worker waits for slower ones.
AVERAGE; average; communication; #3d8344
    All workers add up their parameters over the network.
APPLY; apply; communication; #709741
    What came from the others changes this worker's parameters.
VALIDATE; validate; compute; #0058c7
    The validation data is scored.
HISTOGRAMS; histograms; compute; #3b5b8c
    Histograms of the network are taken and sent to the driver.
CHECKPOINT; checkpoint; saving; #515467
    The state of training is sent to the driver, or written by it.
DELIVER; deliver; saving; #7a8087
    The result goes to the driver.
WORK; whole task; compute; #7a8087
    All of a worker's part in the run, from its task's first moment to its last.
OVERLAP; average beside compute; communication; #5f8f63
    All workers add up their parameters while they train on. What is left to wait for is "average".
EXPORT; export; data; #8a5200
    The data is written to files that the workers read.
COUNT; count; data; #a86200
    Spark counts the examples of each partition.
LAYOUT; layout; data; #c77900
    The driver plans which example goes to which worker.
SUBMIT; submit; start-up; #8156b0
    The driver opens its port and hands the job to Spark.
GATHER; waiting for workers; waiting; #b5483a
    The job runs, and not all workers have come yet.
TRAIN; training; compute; #07599f
    The workers train, from the first group until the result is there.
BROADCAST; broadcast; communication; #1c998c
    Without ports: Spark sends the parameters to the executors.
SPLIT; split; data; #8c6239
    Without ports: the driver says which minibatches this round trains.
MAP_PARTITIONS; map partitions; compute; #0058c7
    Without ports: a Spark job trains one round.
AGGREGATE; aggregate; communication; #3d8344
    Without ports: Spark adds up the parameters of a round.
PROCESS_PARAMS; process params; communication; #709741
    Without ports: the driver divides the sum and keeps the average.
FINISH; finish; saving; #7a8087
    The result goes into the driver's model; files and ports are let go.
"""
_ENCLOSING = (PhaseCode.WORK, PhaseCode.TRAIN, PhaseCode.OVERLAP)


def _phases() -> Iterator[Phase]:
    lines = _TABLE.splitlines()
    for row, meaning in zip(lines[0::2], lines[1::2], strict=True):
        name, label, group, color = row.split("; ")
        code = PhaseCode[name]
        yield Phase(
            code=code,
            name=name.lower(),
            label=label,
            meaning=meaning.strip(),
            group=cast("Group", group),
            color=color,
            encloses=code in _ENCLOSING,
            dl4j=tuple(key for key, _, *phases in _DL4J_ROWS if name in phases),
        )


PHASES: tuple[Phase, ...] = tuple(_phases())
_BY_CODE = {phase.code: phase for phase in PHASES}
_IS_CODE = np.isin(np.arange(256), list(_BY_CODE))


def phase_of(code: int) -> Phase:
    """Return the phase with this code.

    Raises:
        ConfigurationError: if the code is unknown, as in a file of a later version.
    """
    if (found := _BY_CODE.get(int(code))) is None:
        raise ConfigurationError(
            f"`code` must be that of a phase, one of {sorted(map(int, _BY_CODE))}. "
            f"Received: code={code}. A later version of sparkwright may know it."
        )
    return found


def unknown_codes(codes: NDArray[np.uint8]) -> list[int]:
    """Return the unique unknown codes, in ascending order."""
    return np.unique(codes[~_IS_CODE[codes]]).tolist()
