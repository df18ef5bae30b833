import importlib
import inspect
import pkgutil
import tomllib
import types
from pathlib import Path

from tests.cases import cases

import sparkwright as sw

_PUBLIC = """
AdaptiveThreshold Checkpointing ConfigurationError CustomEvaluation DataError DataSet
DefaultRepartitioner DistributedDataSet Evaluation EvaluationBinary
EvaluationCalibration Experiment FixedThreshold Histograms MeshConfig NoRepartitioner
NtpClock OuterOptimizer ParallelWrapper ParameterAveragingTrainingMaster ROC ROCBinary
ROCMultiClass RegressionEvaluation ResidualClipping RunStore
SharedTrainingMaster SparkNetwork SparkSettings SparkwrightError Sweep SystemClock
TargetSparsity TrainingHook TrainingRun adapt advise compare data delete_model
doctor errors import_dl4j leave_gpus_to_workers list_models load_distributed_model
load_evaluation load_model load_normalizer masters measure_step model_info networks
save_evaluation save_model spark start_spark sweep timeline trackers verify_model
"""
PUBLIC = {*_PUBLIC.split()}
SUBMODULES = {module.name for module in pkgutil.iter_modules(sw.__path__)}
PACKAGES = sorted(name for name in SUBMODULES if not name.startswith("_") and name != "errors")


def public_names(module):
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


def documented_members(found):
    """Public methods and properties that the class itself defines."""
    return [
        (name, member)
        for name, member in vars(found).items()
        if not name.startswith("_")
        and isinstance(member, types.FunctionType | property | classmethod | staticmethod)
    ]


def test_public_names_match_the_expected_set():
    found = {
        name
        for name, value in public_names(sw).items()
        if not (isinstance(value, types.ModuleType) and name in SUBMODULES - PUBLIC)
    }
    assert found == PUBLIC
    assert isinstance(sw.__version__, str)


@cases("name", *sorted(PUBLIC))
def test_every_public_name_and_method_is_documented(name):
    found = getattr(sw, name)
    assert inspect.getdoc(found)
    assert str(found.__doc__).strip().splitlines()[0].endswith((".", ":"))
    if inspect.isclass(found):
        assert [n for n, m in documented_members(found) if not inspect.getdoc(m)] == []


@cases("name", *sorted(PUBLIC))
def test_every_public_method_is_documented(name):
    found = getattr(sw, name)
    if inspect.isclass(found):
        missing = [n for n, m in documented_members(found) if not inspect.getdoc(m)]
        assert missing == []


@cases("package", *PACKAGES)
def test_packages_expose_only_their_own_names(package):
    module = importlib.import_module(f"sparkwright.{package}")
    assert module.__doc__
    if not hasattr(module, "__path__"):
        return
    for name, found in public_names(module).items():
        if isinstance(found, types.ModuleType):
            assert found.__name__ == f"sparkwright.{package}.{name}"
        elif inspect.isclass(found) or inspect.isfunction(found):
            assert found.__module__.startswith("sparkwright."), name
            assert inspect.getdoc(found), name


def test_declared_entry_points_exist():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    places = [place for group in project["entry-points"].values() for place in group.values()]
    assert places
    for module, _, name in (place.partition(":") for place in places):
        assert callable(getattr(importlib.import_module(module), name))
