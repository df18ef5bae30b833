"""Python code of an experiment: a script, or a notebook with one cell per step."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkwright.data import MinMaxScale, Standardize
from sparkwright.python_code import Expression, call_to_code, to_code

if TYPE_CHECKING:
    from ._experiment import Experiment

NORMALIZERS = {"standardize": Standardize, "min_max": MinMaxScale}
# papermill and similar tools look for the cell with this tag.
_TAG = "parameters"
_NAMES = (
    *("data_url", "split_seed", "executors", "workers", "network_seed"),
    *("batch_size", "training_seed", "epochs"),
)
# Option of the master -> the variable that holds its value.
_OF_MASTER = {"workers": "workers", "batch_size_per_worker": "batch_size", "seed": "training_seed"}
_EVALUATIONS = {
    "regression": "network.evaluate_regression({})",
    "binary": "network.do_evaluation({}, sw.EvaluationBinary())",
}


class Step(NamedTuple):
    """A block of code with a title and a description."""

    title: str
    text: str
    code: str
    tags: tuple[str, ...] = ()


def steps(experiment: "Experiment", *, in_notebook: bool) -> Iterator[Step]:
    names = _parameters(experiment) if in_notebook else {}
    if in_notebook:
        yield Step(
            title="Parameters",
            text="Values to vary; the cells below use these names. "
            "`python -m sparkwright_widgets.report NOTEBOOK -p epochs 9`, or papermill, runs the "
            "notebook with other values.",
            code="\n".join(f"{name} = {to_code(value)}" for name, value in names.items()),
            tags=(_TAG,),
        )
    executors = "executors" if "executors" in names else "workers"
    has_executors = executors in names and experiment.spark.master in (None, "local-cluster")
    yield Step(
        title="Start Spark",
        text="One executor for each worker.",
        code="import sparkwright as sw\n\n"
        + experiment.spark.to_code("spark", workers=executors if has_executors else None),
    )
    yield Step(
        title="The data",
        text="Load the examples and split them.",
        code=_loading(experiment, names),
    )
    yield Step(
        title="The network",
        text="Layers, loss and optimizer.",
        code=experiment.network.to_code(
            "model", reserved=_names_around(experiment), seed=_known("network_seed", names)
        ).rstrip(),
    )
    yield Step(
        title="Train",
        text="The training master defines how the workers train together.",
        code=_training(experiment, names, in_notebook=in_notebook),
    )
    part = _evaluated(experiment)
    text = "Evaluate the network on examples that it was not trained on."
    if part == "train":
        text = "Evaluate the network on the examples that it was trained on."
    elif part == experiment.validation:
        text += " They are also the validation data: the scores are not independent."
    yield Step(
        title="Evaluate",
        text=text,
        code=_evaluation(experiment, part, in_notebook=in_notebook),
    )


def script(experiment: "Experiment") -> str:
    blocks = (f"# {step.title}\n{step.code}" for step in steps(experiment, in_notebook=False))
    return f'"""{_one_line(experiment.title)}"""\n\n' + "\n\n".join(blocks) + "\n"


def notebook(experiment: "Experiment") -> dict[str, Any]:
    """Return the JSON of an `.ipynb` file (nbformat 4.5), with a heading and code cell per step."""
    cells = [_cell("markdown", f"# {experiment.title}")]
    for step in steps(experiment, in_notebook=True):
        cells.append(_cell("markdown", f"## {step.title}\n\n{step.text}"))
        cells.append(_cell("code", step.code, tags=step.tags))
    cells.append(
        _cell(
            "markdown",
            "## The experiment as YAML\n\n`sw.Experiment.from_yaml(text).start(spark)` trains it "
            f"again.\n\n```yaml\n{experiment.to_yaml()}```",
        )
    )
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return {
        "cells": [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(kind: str, source: str, *, tags: Sequence[str] = ()) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": {"tags": list(tags)} if tags else {},
        "source": source.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def _parameters(experiment: "Experiment") -> dict[str, Any]:
    """Name -> value of the notebook's parameters, in the order of use."""
    source, spark = experiment.data, experiment.spark
    master = experiment.seeded_master
    # Executors and workers share one name unless their numbers differ.
    executors = "workers" if master.workers in (None, spark.workers) else "executors"
    found: dict[str, Any] = {
        "data_url": source.url if source.info.needs_url else None,
        "split_seed": source.split.seed if len(source.split.shares) > 1 else None,
        executors: spark.workers if spark.master in (None, "local-cluster") else None,
    }
    if master.workers is not None:
        found["workers"] = master.workers
    found |= {
        "network_seed": experiment.network.seed,
        "batch_size": master.batch_size_per_worker,
        "training_seed": master.seed,
        "epochs": experiment.epochs,
    }
    return {name: value for name, value in found.items() if value is not None}


def _known(name: str, names: Mapping[str, Any]) -> str | None:
    return name if name in names else None


def _names_around(experiment: "Experiment") -> set[str]:
    """Names used in the code before and after the network; layers must not use them."""
    code = (
        experiment.spark.to_code("spark"),
        _loading(experiment, {}),
        _training(experiment, {}, in_notebook=False),
        _evaluation(experiment, _evaluated(experiment), in_notebook=False),
    )
    nodes = (node for each in code for node in ast.walk(ast.parse(each)))
    return {"sw", *_NAMES} | {node.id for node in nodes if isinstance(node, ast.Name)}


def _evaluated(experiment: "Experiment") -> str:
    parts = experiment.data.split.shares
    return next(name for name in ("test", "validation", "train") if name in parts)


def _loading(experiment: "Experiment", names: Mapping[str, Any]) -> str:
    source = experiment.data
    split = source.split_code("data", seed=_known("split_seed", names)) or "train = data\n"
    url = _known("data_url", names)
    return (source.to_code("data", url=url, splits=True) + split).rstrip()


def _training(experiment: "Experiment", names: Mapping[str, Any], *, in_notebook: bool) -> str:
    named = {option: name for option, name in _OF_MASTER.items() if name in names}
    if experiment.master.workers is None:
        named.pop("workers", None)  # the number of Spark's task slots
    lines = [f"master = {to_code(experiment.seeded_master, named=named)}"]
    wrapped: dict[str, Any] = {}
    if experiment.normalize is not None:
        kind = NORMALIZERS[experiment.normalize].__name__
        labels = ", labels=True" if experiment.data.task == "regression" else ""
        lines.append(f"normalizer = sw.data.{kind}.fit(train{labels})")
        wrapped["normalizer"] = Expression("normalizer")
    spark, model, master = map(Expression, ("spark", "model", "master"))
    lines.append(call_to_code("network = sw.SparkNetwork", spark, model, master, **wrapped))
    trained_by, collect = "network", ""
    if experiment.parallel:
        lines.append(call_to_code("wrapper = sw.ParallelWrapper", model, master, **wrapped))
        trained_by, collect = "wrapper", ".collect()"
    epochs = _known("epochs", names)
    options: dict[str, Any] = {"epochs": Expression(epochs) if epochs else experiment.epochs}
    if experiment.validation is not None:
        options["validation"] = Expression(f"{experiment.validation}{collect}")
    if experiment.callbacks:
        calls = ", ".join(each.to_call() for each in experiment.callbacks)
        options["callbacks"] = Expression(f"[{calls}]")
    if experiment.histograms is not None:
        options["histograms"] = experiment.histograms
    if experiment.note:
        lines.append(f"# {experiment.note}")
    train = Expression(f"train{collect}")
    lines.append(call_to_code(f"run = {trained_by}.start", train, **options))
    lines.append("await run" if in_notebook else "run.wait()")
    return "\n".join(lines)


def _evaluation(experiment: "Experiment", part: str, *, in_notebook: bool) -> str:
    call = _EVALUATIONS.get(experiment.network.task, "network.evaluate({})").format(part)
    return f"evaluation = {call}\n{'evaluation' if in_notebook else 'print(evaluation.summary())'}"


def _one_line(text: str) -> str:
    # Characters that are not printable, such as null bytes, are invalid in Python source.
    text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.replace("\\", "/").replace('"', "'").split()) or "An experiment"
