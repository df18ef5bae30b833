"""An experiment as plain Python, in the steps that a notebook's cells are."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkwright.configuration import to_code
from sparkwright.data import DataSource

from ._experiment import NORMALIZERS
from ._parameters import NAMES, TAG, WITHOUT, Parameters, parameters_of

if TYPE_CHECKING:
    from ._experiment import Experiment


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Some lines of code, and what they are about.

    Attributes:
        title: a few words.
        text: a sentence or two.
        code: Python.
        tags: of the cell; default none.
    """

    title: str
    text: str
    code: str
    tags: tuple[str, ...] = ()


def steps(experiment: "Experiment", *, in_notebook: bool) -> Iterator[Step]:
    """The steps of the experiment, in order.

    Args:
        experiment: what to do.
        in_notebook: whether runs are waited for with `await`, as notebooks can, and what one would
            vary has names, set in a step of its own.
    """
    parameters = parameters_of(experiment) if in_notebook else WITHOUT
    if in_notebook:
        yield Step(
            title="Parameters",
            text="What one would vary; the cells below use these names. "
            "`python -m sparkwright_widgets.report NOTEBOOK -p epochs 9`, or papermill, runs the "
            "notebook with other values.",
            code=parameters.to_code(),
            tags=(TAG,),
        )
    yield Step(
        title="Start Spark",
        text="One executor for each worker.",
        code="import sparkwright as sw\n\n"
        + experiment.spark.to_code("spark", workers=parameters.executors),
    )
    yield Step(
        title="The data",
        text="Where the examples come from, and how they are split.",
        code=_loading(experiment.data, parameters),
    )
    yield Step(
        title="The network",
        text="Layers, loss and optimizer.",
        code=_network(experiment, parameters),
    )
    yield Step(
        title="Train",
        text="The training master says how the workers train together.",
        code=_training(experiment, parameters, in_notebook=in_notebook),
    )
    name = _evaluated(experiment)
    text = "How good the network is, on examples that it was not trained on."
    if name == "train":
        text = "How good the network is, on the examples that it was trained on."
    elif name == experiment.validation:
        text += " They are also the validation data: the scores are not independent."
    yield Step(
        title="Evaluate",
        text=text,
        code=_evaluation(experiment, name, in_notebook=in_notebook),
    )


def script(experiment: "Experiment") -> str:
    """The steps as one script."""
    blocks = (f"# {step.title}\n{step.code}" for step in steps(experiment, in_notebook=False))
    return f'"""{_one_line(experiment.title)}"""\n\n' + "\n\n".join(blocks) + "\n"


def _names_around(experiment: "Experiment") -> set[str]:
    """Names in the code before and after the network, which no layer may take."""
    part = _evaluated(experiment)
    code = (
        experiment.spark.to_code("spark"),
        _loading(experiment.data, WITHOUT),
        _training(experiment, WITHOUT, in_notebook=False),
        _evaluation(experiment, part, in_notebook=False),
    )
    trees = map(ast.parse, code)
    return {"sw", *NAMES} | {
        node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)
    }


def _evaluated(experiment: "Experiment") -> str:
    parts = experiment.data.split.shares
    return "test" if "test" in parts else ("validation" if "validation" in parts else "train")


def _loading(source: DataSource, parameters: Parameters) -> str:
    split = source.split.to_code("data", seed=parameters.named("split_seed")) or "train = data\n"
    return (source.to_code("data", url=parameters.named("data_url")) + split).rstrip()


def _network(experiment: "Experiment", parameters: Parameters) -> str:
    return experiment.network.to_code(
        "model", reserved=_names_around(experiment), seed=parameters.named("network_seed")
    ).rstrip()


def _training(experiment: "Experiment", parameters: Parameters, *, in_notebook: bool) -> str:
    options = {"workers": "workers", "batch_size_per_worker": "batch_size", "seed": "training_seed"}
    named = {option: name for option, name in options.items() if parameters.named(name)}
    if experiment.master.workers is None:
        named.pop("workers", None)  # as many as Spark has task slots
    lines = [f"master = {to_code(experiment.seeded_master, named=named)}"]
    normalizer = ""
    if experiment.normalize is not None:
        kind = NORMALIZERS[experiment.normalize].__name__
        labels = ", labels=True" if experiment.data.task == "regression" else ""
        lines.append(f"normalizer = sw.data.{kind}.fit(train{labels})")
        normalizer = ", normalizer=normalizer"
    lines.append(f"network = sw.SparkNetwork(spark, model, master{normalizer})")
    collect = ".collect()" if experiment.parallel else ""
    epochs = parameters.named("epochs") or experiment.epochs
    arguments = [f"train{collect}", f"epochs={epochs}"]
    if experiment.validation is not None:
        arguments.append(f"validation={experiment.validation}{collect}")
    if experiment.early_stopping is not None:
        arguments.append(f"early_stopping={to_code(experiment.early_stopping)}")
    trained_by = "network"
    if experiment.parallel:
        lines.append(f"wrapper = sw.ParallelWrapper(model, master{normalizer})")
        trained_by = "wrapper"
    if experiment.note:
        lines.append(f"# {experiment.note}")
    lines.append(f"run = {trained_by}.start({', '.join(arguments)})")
    lines.append("await run" if in_notebook else "run.wait()")
    return "\n".join(lines)


def _evaluation(experiment: "Experiment", name: str, *, in_notebook: bool) -> str:
    call = {
        "regression": f"network.evaluate_regression({name})",
        "binary": f"network.do_evaluation({name}, sw.EvaluationBinary())",
    }.get(experiment.network.task, f"network.evaluate({name})")
    return f"evaluation = {call}\n{'evaluation' if in_notebook else 'print(evaluation.summary())'}"


def _one_line(text: str) -> str:
    # What cannot be shown, such as a null byte, cannot stand in Python's source either.
    text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.replace("\\", "/").replace('"', "'").split()) or "An experiment"
