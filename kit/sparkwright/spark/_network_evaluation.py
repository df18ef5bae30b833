"""Distributed evaluation and scoring of a network."""

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
from sparkwright.workers.inference import metric_values

from ._evaluating import (
    Evaluations,
    by_output,
    evaluate,
    in_given_form,
    score,
    worst_examples,
)
from ._layout import first_layout
from ._network_prediction import PredictingNetwork
from ._predicting import score_examples, score_keyed

if TYPE_CHECKING:
    from pyspark import RDD


def _of_files(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of `method` that reads files of minibatches."""

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
        f"`{method.__name__}` with its `options` on files of minibatches; see "
        "`fit_paths` for the file arguments."
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
            data: as for `fit`, with labels. If the normalizer scales labels, evaluations use labels
                and predictions in the original units.
            evaluations: an evaluation without data, such as `ROC()`; a list of them; or a dict from
                output name to one or a list, for a network with several outputs.
            batch_size: examples per call; default 64.
            eval_workers: maximum number of concurrent copies of the network per machine; further
                tasks wait. Default None: one per task slot.

        Returns:
            The evaluations of all the data, in the form of the argument. Unnamed outputs get the
            names of the label columns, or the name of the network's output.

        Raises:
            ConfigurationError: if an output is unknown, or a network with several outputs needs
                output names.
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
        return_dict: bool = False,
        verbose: Any = None,
    ) -> Any:
        """Evaluate a classifier on the executors, or any network as Keras does.

        Args:
            data: as for `fit`, with labels.
            y: labels for the features in `data`, as for `fit`; default None.
            batch_size: examples per call; default 64.
            class_names: names of the classes; default None: those of the data, or those of the
                training data.
            top_n: also compute top-n accuracy; default 1.
            output: name of the network's output to evaluate; default None: the only one.
            eval_workers: as for `do_evaluation`.
            return_dict: return the loss and the compiled metrics by name, as Keras does; default
                False.
            verbose: accepted as in Keras, but nothing is displayed; default None.

        Returns:
            An `Evaluation`: accuracy, precision, recall, F1, confusion matrix and more, over all
            examples. With `return_dict` the dict.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        data = self._distributed(data if y is None else (data, y), "data", schema=self.schema)
        if return_dict:
            check_loss_weights(self.model)
            with self._inference(batch_size, eval_workers) as inference:
                found = score(inference, data, normalizer=self.normalizer)
                return metric_values(inference.definition, found, first_layout(data))
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
        """Compute ROC and precision-recall of a binary classifier; see `evaluate` for arguments.

        With thresholds=0 (default) the curves are exact, with a point at each distinct score. Above
        a million rows, the cluster sorts the scores and the driver receives a digest: exact areas
        and some thousand exact points of the curve. With thresholds=n, scores are counted at n + 1
        thresholds from 0 to 1, in constant memory.

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
        """Compute the ROC of each class against the rest; see `evaluate_roc` for arguments.

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
        """Compute errors, correlation and R² of each predicted number; see `evaluate`.

        `names` are the names of the numbers; default None: those of the label columns, else the
        name of the network's output. If a normalizer scaled the labels, errors are in the original
        units.

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
        """Compute the loss over `data`, with regularization; see `evaluate` for other arguments.

        Returns the mean over the examples, of sequences over their steps, that `labels_masks` let
        count; with average=False, the sum of the examples' means.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        check_loss_weights(self.model)
        data = self._distributed(data, "data", schema=self.schema)
        with self._inference(batch_size, eval_workers) as inference:
            found = score(inference, data, normalizer=self.normalizer)
        return found.of_labels / found.labels if average else found.total

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
        """Compute the loss of each example; see `evaluate` for other arguments.

        With keyed=True, `data` is an RDD of (key, DataSet of one example) or (key, (features,
        label)). With regularization=False, the regularization terms, the same for every example,
        are excluded.

        Returns:
            A lazy RDD of floats in the order of the data, or of (key, float).

        Raises:
            DataError: when the RDD is computed, if the data does not fit the network, has no
                labels, or a key has more or less than one example.
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
        """Return the `count` examples with the highest loss; see `evaluate` for other arguments.

        This takes one pass over the data, and memory for `count` examples.

        Returns:
            Examples in order of decreasing loss, with unnormalized features and labels, outputs,
            partition and row. Examples of equal loss are in data order.

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
        """Return the class names given, else those of the data, else of the training data."""
        if given:
            return tuple(given)
        known, outputs = data.class_names or self.class_names, output_names(self.model)
        name = outputs[0] if output is None and len(outputs) == 1 else output
        if name in known:
            return known[name]
        # The labels of a network with one output may have a different name.
        return next(iter(known.values())) if len(known) == len(outputs) == 1 else None

    def _names_of_numbers(self, data: DistributedDataSet, output: str) -> tuple[str, ...]:
        """Return the label columns of an output, else its indexed name; empty if unknown."""
        types = output_types(self.model)
        width = types[output][1][-1] if types[output][1] else 1
        labels = {} if data.schema is None else data.schema.labels
        alone = len(types) == 1
        columns = labels.get(output) or (next(iter(labels.values()), ()) if alone else ())
        if width is None or len(columns) == width:
            return columns
        if alone and _is_generated(self.model, output):
            return ()  # so that evaluations of networks of the same architecture add up
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
    """Return whether Keras generated the layer's name, such as "dense_3"."""
    kinds = [type(layer).__name__.lower() for layer in model.layers if layer.name == name]
    return re.sub(r"_\d+$", "", name).replace("_", "") in kinds


def _require_rdd(data: Any) -> "RDD[Any]":
    from pyspark import RDD

    if not isinstance(data, RDD):
        raise DataError(f"data with keys must be an RDD of pairs. Received: {type(data).__name__}.")
    return data
