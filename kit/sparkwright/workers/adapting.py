"""What preprocessing layers have to know of data: found by their own code, piece by piece."""

from collections import Counter
from typing import Any

import numpy as np

from sparkwright.data.texts import is_text
from sparkwright.errors import DataError
from sparkwright.networks.adapted import lookup_of

Summary = dict[str, Any]
# Bins are found among ten times as many points as Keras keeps, so that merging costs nothing.
_FINER = 10


def summarize(layer: Any, examples: Any) -> Summary:
    """A summary of some examples, in a trainer; `layer` is not adapted and not used otherwise."""
    import keras

    kinds = keras.layers
    # As `adapt`: a number or text an example is an example of one.
    examples = examples[:, None] if examples.ndim == 1 else examples
    numeric = isinstance(layer, kinds.Normalization | kinds.Discretization)
    if numeric and (is_text(examples) or not np.isfinite(examples).all()):
        raise DataError(
            f"a {type(layer).__name__} must be adapted to finite numbers. Received: text, NaN or "
            "infinite numbers. Fill or drop them first."
        )
    if isinstance(layer, kinds.Normalization):
        layer.build((None, *examples.shape[1:]))
        wide, axes = examples.astype(np.float64), layer._reduce_axis
        mean = wide.mean(axis=axes)
        return {"count": wide.size // mean.size, "mean": mean, "variance": wide.var(axis=axes)}
    if isinstance(layer, kinds.Discretization):
        layer.epsilon /= _FINER
        layer.update_state(examples)
        return {"points": layer.summary}
    layer.update_state(examples)
    lookup = lookup_of(layer)
    tokens, counts = lookup.token_counts.export()
    found = {"tokens": tokens.numpy(), "counts": counts.numpy(), "examples": len(examples)}
    if lookup.output_mode == "tf_idf":
        found["documents"] = lookup.token_document_counts.lookup(tokens).numpy()
    return found


def counted(summary: Summary) -> Summary:
    """A trainer's summary as one that can be merged."""
    if "tokens" not in summary:
        return summary
    tokens = summary["tokens"].tolist()
    documents = summary.get("documents", np.empty(0)).tolist()
    return {
        "tokens": Counter(dict(zip(tokens, summary["counts"].tolist(), strict=True))),
        "documents": Counter(dict(zip(tokens, documents, strict=False))),
        "examples": summary["examples"],
    }


def merged(one: Summary, other: Summary) -> Summary:
    """The summary of both together; `one` may change."""
    if "points" in one:
        return {"points": np.concatenate([one["points"], other["points"]], axis=1)}
    if "tokens" in one:
        one["tokens"].update(other["tokens"])
        one["documents"].update(other["documents"])
        return {**one, "examples": one["examples"] + other["examples"]}
    count = one["count"] + other["count"]
    share, delta = other["count"] / count, other["mean"] - one["mean"]
    variance = one["variance"] + (other["variance"] - one["variance"]) * share
    return {
        "count": count,
        "mean": one["mean"] + delta * share,
        "variance": variance + delta**2 * share * (1 - share),
    }


def give(layer: Any, summary: Summary, shape: tuple[int, ...]) -> None:
    """Adapt `layer` to a summary of all examples, each of `shape`, on the driver."""
    if "mean" in summary:
        if not layer.built:
            layer.build((None, *(shape or (1,))))
        layer.adapt_mean.assign(summary["mean"])
        layer.adapt_variance.assign(summary["variance"])
    elif "points" in summary:
        layer.summary = summary["points"][:, np.argsort(summary["points"][0])]
    else:
        lookup = lookup_of(layer)
        layer.reset_state()
        _insert(lookup, "token_counts", summary["tokens"])
        if lookup.output_mode == "tf_idf":
            _insert(lookup, "token_document_counts", summary["documents"])
            lookup.num_documents.assign(summary["examples"])
    layer.finalize_state()


def _insert(lookup: Any, table: str, counts: Counter[Any]) -> None:
    import tensorflow as tf

    if counts:
        tokens: Any = tf.constant(list(counts), lookup.vocabulary_dtype)
        getattr(lookup, table).insert(tokens, tf.constant(list(counts.values()), tf.int64))
