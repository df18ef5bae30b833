"""The phases of driver and workers, and what each is called, means and looks like.

A phase travels and is kept as its code, one byte. Codes are never given to another phase: files
that were written earlier are read with them.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

Group = Literal["start-up", "data", "compute", "communication", "waiting", "saving"]
GROUPS: tuple[Group, ...] = (
    *("start-up", "data", "compute"),
    *("communication", "waiting", "saving"),
)


class PhaseCode(IntEnum):
    """The code of each phase; those of the driver alone begin at 32."""

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
    """A kind of work, or of waiting.

    Attributes:
        code: from 0 to 255; see `PhaseCode`.
        name: as it stands in tables, such as "first_data".
        label: a few words for people, such as "first data".
        meaning: one line: what goes on meanwhile.
        group: what it counts as.
        colour: on a light page, as "#rrggbb".
        dark_colour: on a dark one.
        encloses: whether other phases of the same lane lie within it; then it is no part of a sum.
        dl4j: keys under which Deeplearning4j measures the same, or what is closest to it.
    """

    code: int
    name: str
    label: str
    meaning: str
    group: Group
    colour: str
    dark_colour: str
    encloses: bool = False
    dl4j: tuple[str, ...] = ()

    @property
    def dl4j_names(self) -> tuple[str, ...]:
        """Deeplearning4j's short names for `dl4j`."""
        return tuple(DL4J_NAMES[key] for key in self.dl4j)


_MASTER = "ParameterAveragingMaster"
_WORKER = "WorkerFlatMap"
# Deeplearning4j writes this one key with a small letter.
_EXPORT = "parameterAveragingMasterExportTimesMs"

DL4J_NAMES: dict[str, str] = {
    _EXPORT: "Export",
    f"{_MASTER}CountRddSizeTimesMs": "CountRDD",
    f"{_MASTER}BroadcastCreateTimesMs": "CreateBroadcast",
    f"{_MASTER}RepartitionTimesMs": "Repartition",
    f"{_MASTER}FitTimesMs": "Fit",
    f"{_MASTER}SplitTimesMs": "Split",
    f"{_MASTER}MapPartitionsTimesMs": "MapPart",
    f"{_MASTER}AggregateTimesMs": "Aggregate",
    f"{_MASTER}ProcessParamsUpdaterTimesMs": "ProcessParams",
    f"{_WORKER}TotalTimeMs": "Total",
    f"{_WORKER}GetInitialModelTimeMs": "GetInitModel",
    f"{_WORKER}DataSetGetTimesMs": "GetDataSet",
    f"{_WORKER}ProcessMiniBatchTimesMs": "ProcessBatch",
    "ParameterAveragingWorkerBroadcastGetValueTimeMs": "BroadcastGet",
    "ParameterAveragingWorkerInitTimeMs": "ModelInit",
    "ParameterAveragingWorkerFitTimesMs": "Fit",
}
_KEYS_OF_BATCHES = (f"{_WORKER}ProcessMiniBatchTimesMs", "ParameterAveragingWorkerFitTimesMs")


def _worker_phases() -> tuple[Phase, ...]:
    return (
        Phase(
            code=PhaseCode.QUEUED,
            name="queued",
            label="queued",
            meaning="Spark has no free slot for the worker's task yet.",
            group="waiting",
            colour="#8c6239",
            dark_colour="#b08a5e",
        ),
        Phase(
            code=PhaseCode.SHARD,
            name="shard",
            label="data in",
            meaning="The task writes its partition to files that the worker maps.",
            group="data",
            colour="#8a5200",
            dark_colour="#c98a1b",
        ),
        Phase(
            code=PhaseCode.TENSORFLOW,
            name="tensorflow",
            label="TensorFlow start",
            meaning="The worker's process starts and loads TensorFlow; later runs reuse it.",
            group="start-up",
            colour="#5e3c99",
            dark_colour="#9d7fd6",
        ),
        Phase(
            code=PhaseCode.BUILD,
            name="build",
            label="model build",
            meaning="The network is made from its description.",
            group="start-up",
            colour="#8156b0",
            dark_colour="#b79be8",
            dl4j=(f"{_WORKER}GetInitialModelTimeMs", "ParameterAveragingWorkerInitTimeMs"),
        ),
        Phase(
            code=PhaseCode.STATE,
            name="state",
            label="starting state",
            meaning="The parameters with which training begins come from the driver or a peer.",
            group="start-up",
            colour="#a05195",
            dark_colour="#c98bc4",
            dl4j=(
                f"{_WORKER}GetInitialModelTimeMs",
                "ParameterAveragingWorkerBroadcastGetValueTimeMs",
            ),
        ),
        Phase(
            code=PhaseCode.ASSEMBLE,
            name="assemble",
            label="waiting for all",
            meaning="The worker is ready and waits until the others have come, too.",
            group="waiting",
            colour="#b5483a",
            dark_colour="#d9796b",
        ),
        Phase(
            code=PhaseCode.TRACE,
            name="trace",
            label="tracing",
            meaning="The first compiled call: TensorFlow traces and compiles the step.",
            group="start-up",
            colour="#b370b8",
            dark_colour="#f3b3f4",
            dl4j=_KEYS_OF_BATCHES,
        ),
        Phase(
            code=PhaseCode.FIRST_DATA,
            name="first_data",
            label="first data",
            meaning="The worker waits for its first minibatches; nothing could be fetched ahead.",
            group="data",
            colour="#a86200",
            dark_colour="#e0a93a",
            dl4j=(f"{_WORKER}DataSetGetTimesMs",),
        ),
        Phase(
            code=PhaseCode.DATA,
            name="data",
            label="get batch",
            meaning="The worker waits for its next minibatches.",
            group="data",
            colour="#c77900",
            dark_colour="#f9b139",
            dl4j=(f"{_WORKER}DataSetGetTimesMs",),
        ),
        Phase(
            code=PhaseCode.COMPUTE,
            name="compute",
            label="compute",
            meaning="The compiled step trains minibatches.",
            group="compute",
            colour="#07599f",
            dark_colour="#268bc3",
            dl4j=_KEYS_OF_BATCHES,
        ),
        Phase(
            code=PhaseCode.ENCODE,
            name="encode",
            label="encode",
            meaning="What was learnt is encoded to a short message.",
            group="communication",
            colour="#1c998c",
            dark_colour="#6fc9b8",
        ),
        Phase(
            code=PhaseCode.SEND,
            name="send",
            label="send",
            meaning="The message is handed to the network.",
            group="communication",
            colour="#006842",
            dark_colour="#0fa073",
        ),
        Phase(
            code=PhaseCode.WAIT,
            name="wait",
            label="wait for peers",
            meaning="The worker waits for slower ones.",
            group="waiting",
            colour="#bb4a00",
            dark_colour="#de762f",
        ),
        Phase(
            code=PhaseCode.AVERAGE,
            name="average",
            label="average",
            meaning="All workers add up their parameters over the network.",
            group="communication",
            colour="#3d8344",
            dark_colour="#62b76d",
            dl4j=(f"{_MASTER}AggregateTimesMs",),
        ),
        Phase(
            code=PhaseCode.APPLY,
            name="apply",
            label="apply",
            meaning="What came from the others changes this worker's parameters.",
            group="communication",
            colour="#709741",
            dark_colour="#b3da70",
            dl4j=(f"{_MASTER}ProcessParamsUpdaterTimesMs",),
        ),
        Phase(
            code=PhaseCode.VALIDATE,
            name="validate",
            label="validate",
            meaning="The validation data is scored.",
            group="compute",
            colour="#0058c7",
            dark_colour="#72a3ff",
        ),
        Phase(
            code=PhaseCode.CHECKPOINT,
            name="checkpoint",
            label="checkpoint",
            meaning="The state of training is sent to the driver, or written by it.",
            group="saving",
            colour="#515467",
            dark_colour="#7a91a1",
        ),
        Phase(
            code=PhaseCode.DELIVER,
            name="deliver",
            label="deliver",
            meaning="The result goes to the driver.",
            group="saving",
            colour="#7a8087",
            dark_colour="#bcc4cc",
        ),
        Phase(
            code=PhaseCode.WORK,
            name="work",
            label="whole task",
            meaning="All of a worker's part in the run, from its task's first moment to its last.",
            group="compute",
            colour="#7a8087",
            dark_colour="#8a94a0",
            encloses=True,
            dl4j=(f"{_WORKER}TotalTimeMs",),
        ),
    )


def _driver_phases() -> tuple[Phase, ...]:
    return (
        Phase(
            code=PhaseCode.EXPORT,
            name="export",
            label="export",
            meaning="The data is written to files that the workers read.",
            group="data",
            colour="#8a5200",
            dark_colour="#c98a1b",
            dl4j=(_EXPORT,),
        ),
        Phase(
            code=PhaseCode.COUNT,
            name="count",
            label="count",
            meaning="Spark counts the examples of each partition.",
            group="data",
            colour="#a86200",
            dark_colour="#e0a93a",
            dl4j=(f"{_MASTER}CountRddSizeTimesMs",),
        ),
        Phase(
            code=PhaseCode.LAYOUT,
            name="layout",
            label="layout",
            meaning="The driver plans which example goes to which worker.",
            group="data",
            colour="#c77900",
            dark_colour="#f9b139",
            dl4j=(f"{_MASTER}RepartitionTimesMs",),
        ),
        Phase(
            code=PhaseCode.SUBMIT,
            name="submit",
            label="submit",
            meaning="The driver opens its port and hands the job to Spark.",
            group="start-up",
            colour="#8156b0",
            dark_colour="#b79be8",
        ),
        Phase(
            code=PhaseCode.GATHER,
            name="gather",
            label="waiting for workers",
            meaning="The job runs, and not all workers have come yet.",
            group="waiting",
            colour="#b5483a",
            dark_colour="#d9796b",
        ),
        Phase(
            code=PhaseCode.TRAIN,
            name="train",
            label="training",
            meaning="The workers train, from the first group until the result is there.",
            group="compute",
            colour="#07599f",
            dark_colour="#268bc3",
            encloses=True,
            dl4j=(f"{_MASTER}FitTimesMs",),
        ),
        Phase(
            code=PhaseCode.BROADCAST,
            name="broadcast",
            label="broadcast",
            meaning="Without ports: Spark sends the parameters to the executors.",
            group="communication",
            colour="#1c998c",
            dark_colour="#6fc9b8",
            dl4j=(f"{_MASTER}BroadcastCreateTimesMs",),
        ),
        Phase(
            code=PhaseCode.SPLIT,
            name="split",
            label="split",
            meaning="Without ports: the driver says which minibatches this round trains.",
            group="data",
            colour="#8c6239",
            dark_colour="#b08a5e",
            dl4j=(f"{_MASTER}SplitTimesMs",),
        ),
        Phase(
            code=PhaseCode.MAP_PARTITIONS,
            name="map_partitions",
            label="map partitions",
            meaning="Without ports: a Spark job trains one round.",
            group="compute",
            colour="#0058c7",
            dark_colour="#72a3ff",
            dl4j=(f"{_MASTER}MapPartitionsTimesMs",),
        ),
        Phase(
            code=PhaseCode.AGGREGATE,
            name="aggregate",
            label="aggregate",
            meaning="Without ports: Spark adds up the parameters of a round.",
            group="communication",
            colour="#3d8344",
            dark_colour="#62b76d",
            dl4j=(f"{_MASTER}AggregateTimesMs",),
        ),
        Phase(
            code=PhaseCode.PROCESS_PARAMS,
            name="process_params",
            label="process params",
            meaning="Without ports: the driver divides the sum and keeps the average.",
            group="communication",
            colour="#709741",
            dark_colour="#b3da70",
            dl4j=(f"{_MASTER}ProcessParamsUpdaterTimesMs",),
        ),
        Phase(
            code=PhaseCode.FINISH,
            name="finish",
            label="finish",
            meaning="The result goes into the driver's model; files and ports are let go.",
            group="saving",
            colour="#7a8087",
            dark_colour="#bcc4cc",
        ),
    )


WORKER_PHASES: tuple[Phase, ...] = _worker_phases()
DRIVER_PHASES: tuple[Phase, ...] = _driver_phases()
PHASES: tuple[Phase, ...] = WORKER_PHASES + DRIVER_PHASES
_BY_CODE = {phase.code: phase for phase in PHASES}
_BY_NAME = {phase.name: phase for phase in PHASES}
_IS_CODE = np.isin(np.arange(256), list(_BY_CODE))


def phase_of(code: int) -> Phase:
    """The phase with this code.

    Raises:
        ConfigurationError: if there is none, as in a file of a later version.
    """
    if (found := _BY_CODE.get(int(code))) is None:
        raise ConfigurationError(
            f"`code` must be that of a phase, one of {sorted(map(int, _BY_CODE))}. "
            f"Received: code={code}. A later version of sparkwright may know it."
        )
    return found


def unknown_codes(codes: NDArray[np.uint8]) -> list[int]:
    """Those of no phase, each once, in order.

    Args:
        codes: (n,) uint8.
    """
    return np.unique(codes[~_IS_CODE[codes]]).tolist()


def phase_named(name: str) -> Phase:
    """The phase with this name.

    Raises:
        ConfigurationError: if there is none.

    Example:
        >>> phase_named("wait").label
        'wait for peers'
    """
    if (found := _BY_NAME.get(name)) is None:
        raise ConfigurationError(
            f"`name` must be that of a phase. Received: name={name!r}. "
            f"There are: {', '.join(_BY_NAME)}."
        )
    return found
