"""Evaluation and scoring: how good a network is, found out on the executors."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.data import DistributedDataSet
from sparkwright.data.loaders import Loader
from sparkwright.data.pieces import OnError
from sparkwright.errors import DataError
from sparkwright.evaluation import (
    ROC,
    Evaluation,
    RegressionEvaluation,
    ROCDigest,
    ROCMultiClass,
    WorstExamples,
)
from sparkwright.networks.signature import output_names, output_types
from sparkwright.networks.steps import check_example_losses, check_loss_weights

from ._evaluating import Evaluations, by_output, evaluate, in_given_form, score, worst_examples
from ._network_prediction import PredictingNetwork
from ._predicting import score_examples, score_keyed

if TYPE_CHECKING:
    from pyspark import RDD


def _of_files(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method `method` on files of minibatches."""

    def of_files(
        self: PredictingNetwork,
        where: Any,
        *arguments: Any,
        loader: Loader | None = None,
        on_error: OnError = "raise",
        **options: Any,
    ) -> Any:
        data = self._minibatches(where, loader, on_error)  # pyright: ignore[reportPrivateUsage]
        return method(self, data, *arguments, **options)

    of_files.__name__ = f"{method.__name__}_paths"
    of_files.__doc__ = (
        f"`{method.__name__}` with its `options` on files of minibatches; see `fit_paths` for "
        "these."
    )
    return of_files


class EvaluatingNetwork(PredictingNetwork):
    """The part of `SparkNetwork` that evaluates and scores."""

    def do_evaluation(
        self,
        data: Any,
        evaluations: Evaluations,
        *,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> Any:
        """Run several evaluations in one pass over the data, on the executors.

        Args:
            data: as for `fit`, with labels. Where the normalizer scales labels, evaluations see
                labels and predictions in the labels' own units.
            evaluations: an evaluation without data, such as `ROC()`; a list of them; or output
                name -> one or a list, for a network with several outputs.
            batch_size: examples a call; default 64.
            eval_workers: copies of the network at work at a time on an executor's machine; tasks
                beyond that wait for their turn. Default None: one for each task slot.

        Returns:
            The evaluations of all the data, in the form in which they were given. Outputs without
            names get those of the label columns, else that of the network's output.

        Raises:
            ConfigurationError: if there is no such output, or outputs are not named and there are
                several.
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        wanted = by_output(evaluations, output_names(self.model))
        data = self._distributed(data, "data", schema=self.schema)
        wanted = {
            name: tuple(each.named(self._names_of_numbers(data, name)) for each in several)
            for name, several in wanted.items()
        }
        with self._inference(batch_size, eval_workers) as inference:
            found = evaluate(inference, data, wanted, normalizer=self.normalizer)
        return in_given_form(evaluations, found)

    do_evaluation_paths = _of_files(do_evaluation)

    def evaluate(
        self,
        data: Any,
        y: Any = None,
        *,
        batch_size: int = 64,
        class_names: Sequence[str] | None = None,
        top_n: int = 1,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> Evaluation:
        """Evaluate a classifier on the executors.

        Args:
            data: as for `fit`, with labels.
            y: labels of features that are given as `data`, as for `fit`; default None.
            batch_size: examples a call; default 64.
            class_names: names of the classes; default None: the data's own, or
                those of the data trained on.
            top_n: also count how often the class is among the `top_n` most probable; default 1.
            output: name of the network's output to look at; default None: the only one.
            eval_workers: as for `do_evaluation`.

        Returns:
            Accuracy, precision, recall, F1, confusion matrix and more, over all examples.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        data = self._distributed(data if y is None else (data, y), "data", schema=self.schema)
        prototype = Evaluation(self._names_of_classes(class_names, data, output), top_n=top_n)
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    def evaluate_roc(
        self,
        data: Any,
        *,
        thresholds: int = 0,
        batch_size: int = 64,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> ROC | ROCDigest:
        """ROC and precision-recall of a classifier with two classes; arguments as for `evaluate`.

        With thresholds=0, the default, it is exact, at every score that occurs. Above a million
        rows the cluster sorts them, and the driver gets a digest: exact areas, and a curve of some
        thousand exact points. With thresholds=n it counts at n + 1 thresholds from 0 to 1, in
        constant memory.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        prototype = ROC(thresholds=thresholds)
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    def evaluate_roc_multi_class(
        self,
        data: Any,
        *,
        thresholds: int = 0,
        class_names: Sequence[str] | None = None,
        batch_size: int = 64,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> ROCMultiClass:
        """ROC of each class against the rest; arguments as for `evaluate_roc`.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        data = self._distributed(data, "data", schema=self.schema)
        names = self._names_of_classes(class_names, data, output)
        prototype = ROCMultiClass(thresholds=thresholds, class_names=names)
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    def evaluate_regression(
        self,
        data: Any,
        *,
        names: Sequence[str] | None = None,
        batch_size: int = 64,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> RegressionEvaluation:
        """Errors, correlation and R² of each predicted number; arguments as for `evaluate`.

        `names` are those of the numbers; default None: the label columns, else the name of the
        network's output. Where a normalizer scaled the
        labels, errors are in the labels' own units.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        prototype = RegressionEvaluation(names=None if names is None else tuple(names))
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    evaluate_paths = _of_files(evaluate)

    # -- scoring ----------------------------------------------------------------------------

    def score(
        self,
        data: Any,
        *,
        average: bool = True,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> float:
        """The loss over `data`, regularization included; other arguments as for `evaluate`.

        It is the mean over the examples; with average=False their sum.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        check_loss_weights(self.model)
        data = self._distributed(data, "data", schema=self.schema)
        with self._inference(batch_size, eval_workers) as inference:
            found = score(inference, data, normalizer=self.normalizer)
        return found.total / found.examples if average else found.total

    score_paths = _of_files(score)

    def score_examples(
        self,
        data: Any,
        *,
        regularization: bool = True,
        keyed: bool = False,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> "RDD[Any]":
        """The loss that each example has by itself; other arguments as for `evaluate`.

        With keyed=True `data` is an RDD of (key, DataSet of one example) or (key, (features,
        label)). With regularization=False the network's regularization terms, the same for every
        example, are left out.

        Returns:
            A lazy RDD of floats in the order of the data, or of (key, float).

        Raises:
            DataError: when the RDD is computed, if the data does not fit the network, has no
                labels, or a key not exactly one example.
        """
        check_example_losses(self.model)
        inference = self._lasting_inference(batch_size, eval_workers)
        given = _require_rdd(data) if keyed else self._distributed(data, "data", schema=self.schema)
        scored: Any = score_keyed if keyed else score_examples
        return scored(inference, given, normalizer=self.normalizer, regularization=regularization)

    def worst_examples(
        self,
        data: Any,
        count: int = 12,
        *,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> WorstExamples:
        """The `count` examples with the highest loss; other arguments as for `evaluate`.

        It takes one pass, and memory for `count` examples.

        Returns:
            The worst one first, with features and labels as the data holds them, what the network
            said, and where they lie; of equally bad ones the first in the data.

        Raises:
            ConfigurationError: if `count` is no integer of at least 1.
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        check_example_losses(self.model)
        data = self._distributed(data, "data", schema=self.schema)
        with self._inference(batch_size, eval_workers) as inference:
            return worst_examples(
                inference,
                data,
                count=count,
                normalizer=self.normalizer,
                class_names=data.class_names or self.class_names,
            )

    # -- private ----------------------------------------------------------------------------

    def _names_of_classes(
        self, given: Sequence[str] | None, data: DistributedDataSet, output: str | None
    ) -> tuple[str, ...] | None:
        """The names given, else the data's own, else those of the data trained on."""
        if given:
            return tuple(given)
        known, outputs = data.class_names or self.class_names, output_names(self.model)
        name = outputs[0] if output is None and len(outputs) == 1 else output
        if name in known:
            return known[name]
        # Labels of a network with one output may have a name of their own.
        return next(iter(known.values())) if len(known) == len(outputs) == 1 else None

    def _names_of_numbers(self, data: DistributedDataSet, output: str) -> tuple[str, ...]:
        """The label columns of an output, else its own name and places; empty: not known."""
        types = output_types(self.model)
        width = types[output][1][-1] if types[output][1] else 1
        labels = {} if data.schema is None else data.schema.labels
        alone = len(types) == 1
        columns = labels.get(output) or (next(iter(labels.values()), ()) if alone else ())
        if width is None or len(columns) == width:
            return columns
        if alone and _is_generated(self.model, output):
            return ()  # evaluations of networks that are built alike can be added
        return (output,) if width == 1 else tuple(f"{output}[{place}]" for place in range(width))

    def _evaluate_one(
        self,
        prototype: Any,
        data: Any,
        output: str | None,
        batch_size: int,
        eval_workers: int | None,
    ) -> Any:
        wanted = prototype if output is None else {output: prototype}
        found = self.do_evaluation(data, wanted, batch_size=batch_size, eval_workers=eval_workers)
        return found if output is None else found[output]


def _is_generated(model: Any, name: str) -> bool:
    """Whether Keras made up the name of a layer, such as "dense_3"."""
    kinds = [type(layer).__name__.lower() for layer in model.layers if layer.name == name]
    return re.sub(r"_\d+$", "", name).replace("_", "") in kinds


def _require_rdd(data: Any) -> "RDD[Any]":
    from pyspark import RDD

    if not isinstance(data, RDD):
        raise DataError(f"data with keys must be an RDD of pairs. Received: {type(data).__name__}.")
    return data
