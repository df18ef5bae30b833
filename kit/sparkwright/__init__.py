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

from typing import TYPE_CHECKING

from . import _notices as _notices
from ._lazy import lazy_names as _lazy_names
from ._version import __version__ as __version__
from .benchmark import benchmark as benchmark
from .doctor import doctor as doctor

_notices.quiet_tensorflow()

if TYPE_CHECKING:
    from . import (
        data as data,
        errors as errors,
        masters as masters,
        networks as networks,
        spark as spark,
        timeline as timeline,
        trackers as trackers,
    )
    from .benchmark.advice import advise as advise
    from .data import (
        DataSet as DataSet,
        DistributedDataSet as DistributedDataSet,
        load_normalizer as load_normalizer,
    )
    from .dl4j import import_dl4j as import_dl4j
    from .errors import (
        ConfigurationError as ConfigurationError,
        DataError as DataError,
        SparkwrightError as SparkwrightError,
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
        Histograms as Histograms,
        MeshConfig as MeshConfig,
        NtpClock as NtpClock,
        OuterOptimizer as OuterOptimizer,
        ParameterAveragingTrainingMaster as ParameterAveragingTrainingMaster,
        SharedTrainingMaster as SharedTrainingMaster,
        SystemClock as SystemClock,
        TrainingHook as TrainingHook,
    )
    from .partitions import (
        DefaultRepartitioner as DefaultRepartitioner,
        NoRepartitioner as NoRepartitioner,
    )
    from .runs import RunStore as RunStore, TrainingRun as TrainingRun
    from .spark import (
        SparkNetwork as SparkNetwork,
        SparkSettings as SparkSettings,
        adapt as adapt,
        load_distributed_model as load_distributed_model,
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
    from .sweeps import Sweep as Sweep, sweep as sweep
    from .updates import (
        AdaptiveThreshold as AdaptiveThreshold,
        FixedThreshold as FixedThreshold,
        ResidualClipping as ResidualClipping,
        TargetSparsity as TargetSparsity,
    )
    from .workers.gpus import leave_gpus_to_workers as leave_gpus_to_workers
    from .workers.step_time import measure_step as measure_step


__getattr__, __dir__ = _lazy_names(__name__)
