"""Distributed deep learning on Apache Spark with Keras, from a notebook.

    import sparkwright as sw

    spark = sw.start_spark(workers=2)
    train, test = sw.data.digits(spark).random_split([0.8, 0.2], seed=7)
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32)
    network = sw.SparkNetwork(spark, sw.networks.lenet(), master)
    network.fit(train, epochs=5)
    network.evaluate(test).accuracy

Importing this package loads neither TensorFlow nor Spark; its own modules load at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .doctor import Diagnosis as Diagnosis, doctor as doctor

if TYPE_CHECKING:
    from . import data as data, networks as networks
    from .data import (
        DataSet as DataSet,
        DistributedDataSet as DistributedDataSet,
        load_normalizer as load_normalizer,
    )
    from .errors import (
        ConfigurationError as ConfigurationError,
        DataError as DataError,
        NetworkError as NetworkError,
        NonFiniteLossError as NonFiniteLossError,
        RunInterrupted as RunInterrupted,
        RunTimeoutError as RunTimeoutError,
        SlotsError as SlotsError,
        SparkwrightError as SparkwrightError,
        WorkerError as WorkerError,
    )
    from .evaluation import (
        ROC as ROC,
        CustomEvaluation as CustomEvaluation,
        Evaluation as Evaluation,
        EvaluationBinary as EvaluationBinary,
        EvaluationCalibration as EvaluationCalibration,
        RegressionEvaluation as RegressionEvaluation,
        ROCBinary as ROCBinary,
        ROCMultiClass as ROCMultiClass,
        compare as compare,
    )
    from .experiments import Experiment as Experiment
    from .local import ParallelWrapper as ParallelWrapper
    from .masters import (
        Checkpointing as Checkpointing,
        EarlyStopping as EarlyStopping,
        ExchangeCosts as ExchangeCosts,
        MeshConfig as MeshConfig,
        NtpClock as NtpClock,
        ParameterAveragingTrainingMaster as ParameterAveragingTrainingMaster,
        Scaling as Scaling,
        ScalingCosts as ScalingCosts,
        SharedTrainingMaster as SharedTrainingMaster,
        SystemClock as SystemClock,
        TrainingHook as TrainingHook,
        predict_scaling as predict_scaling,
        prospect as prospect,
        training_master_from_dict as training_master_from_dict,
        training_master_from_json as training_master_from_json,
        training_master_from_yaml as training_master_from_yaml,
    )
    from .partitions import (
        DefaultRepartitioner as DefaultRepartitioner,
        NoRepartitioner as NoRepartitioner,
    )
    from .runs import TrainingRun as TrainingRun
    from .spark import (
        MemoryPlan as MemoryPlan,
        SparkNetwork as SparkNetwork,
        SparkSettings as SparkSettings,
        kubernetes_settings as kubernetes_settings,
        load_distributed_model as load_distributed_model,
        plan_memory as plan_memory,
        send_by_value as send_by_value,
        start_spark as start_spark,
    )
    from .storage import (
        delete_model as delete_model,
        list_models as list_models,
        load_evaluation as load_evaluation,
        load_model as load_model,
        model_info as model_info,
        save_evaluation as save_evaluation,
        save_model as save_model,
        verify_model as verify_model,
    )
    from .timeline import Timeline as Timeline
    from .updates import (
        AdaptiveThreshold as AdaptiveThreshold,
        FixedThreshold as FixedThreshold,
        ResidualClipping as ResidualClipping,
        TargetSparsity as TargetSparsity,
    )
    from .workers._gpus import leave_gpus_to_workers as leave_gpus_to_workers
    from .workers._step_time import measure_step as measure_step

# Module -> the names that it gives to this package, at their first use.
_LAZY = {
    "data": "DataSet DistributedDataSet load_normalizer",
    "errors": (
        "ConfigurationError DataError NetworkError NonFiniteLossError RunInterrupted "
        "RunTimeoutError SlotsError SparkwrightError WorkerError"
    ),
    "evaluation": (
        "ROC CustomEvaluation Evaluation EvaluationBinary EvaluationCalibration "
        "RegressionEvaluation ROCBinary ROCMultiClass compare"
    ),
    "experiments": "Experiment",
    "local": "ParallelWrapper",
    "masters": (
        "Checkpointing EarlyStopping ExchangeCosts MeshConfig NtpClock "
        "ParameterAveragingTrainingMaster Scaling ScalingCosts SharedTrainingMaster SystemClock "
        "TrainingHook predict_scaling prospect training_master_from_dict "
        "training_master_from_json training_master_from_yaml"
    ),
    "partitions": "DefaultRepartitioner NoRepartitioner",
    "runs": "TrainingRun",
    "spark": (
        "MemoryPlan SparkNetwork SparkSettings kubernetes_settings load_distributed_model "
        "plan_memory send_by_value start_spark"
    ),
    "storage": (
        "delete_model list_models load_evaluation load_model model_info save_evaluation "
        "save_model verify_model"
    ),
    "timeline": "Timeline",
    "updates": "AdaptiveThreshold FixedThreshold ResidualClipping TargetSparsity",
    "workers._gpus": "leave_gpus_to_workers",
    "workers._step_time": "measure_step",
}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names.split()}
_MODULES = {"data", "networks", *(module.partition(".")[0] for module in _LAZY)}


def __getattr__(name: str) -> Any:
    """Import what is used for the first time."""
    if name in _MODULE_OF:
        found = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    special = (name for name in globals() if name.startswith("__"))
    return sorted({*special, *_MODULE_OF, "Diagnosis", "data", "doctor", "networks"})
