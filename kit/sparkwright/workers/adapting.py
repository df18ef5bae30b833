"""Distributed `adapt` of preprocessing layers: mergeable summaries of chunks of examples.

tokens      token -> number of occurrences
documents   token -> number of examples that contain it; only for `output_mode="tf_idf"`
examples    {"": number of examples}
points      number -> weight; of a Discretization
count, mean, variance   of a Normalization
"""

from typing import Any

import numpy as np

from sparkwright.data.texts import is_text
from sparkwright.errors import DataError
from sparkwright.networks.adapted import lookup_of

Summary = dict[str, Any]
# Keep ten times as many points as Keras does, so that merging loses no accuracy.
_FINER = 10


def summarize(layer: Any, examples: Any) -> Summary:
    """Summarize (n, ...) examples, in a trainer; `layer` must be new and is modified."""
    import keras

    kinds, kind = keras.layers, type(layer)
    # Like `adapt`, treat scalar examples as vectors of length 1.
    examples = examples[:, None] if examples.ndim == 1 else examples
    numeric = issubclass(kind, kinds.Normalization | kinds.Discretization)
    if numeric and (is_text(examples) or not np.isfinite(examples).all()):
        raise DataError(
            f"a {type(layer).__name__} must be adapted to finite numbers. Received: text, NaN or "
            "infinite numbers. Fill or drop them first."
        )
    if issubclass(kind, kinds.Normalization):
        layer.build((None, *examples.shape[1:]))
        wide, axes = examples.astype(np.float64), layer._reduce_axis
        mean = np.asarray(wide.mean(axis=axes))
        return {
            **{"count": wide.size // mean.size, "mean": mean},
            **{"variance": np.asarray(wide.var(axis=axes)), "shape": examples.shape[1:]},
        }
    if issubclass(kind, kinds.Discretization):
        layer.epsilon /= _FINER
        layer.update_state(examples)
        values, weights = layer.summary.tolist()
        return _added({"points": {}}, {"points": zip(values, weights, strict=True)})
    layer.update_state(examples)
    lookup = lookup_of(layer)
    found: Summary = {"examples": {"": len(examples)}, "tokens": _counts(lookup.token_counts)}
    if lookup.output_mode == "tf_idf":
        found["documents"] = _counts(lookup.token_document_counts)
    return found


def merged(one: Summary, other: Summary) -> Summary:
    """Merge two summaries; may modify `one`."""
    if "mean" not in one:
        return _added(one, {name: counts.items() for name, counts in other.items()})
    count = one["count"] + other["count"]
    share, delta = other["count"] / count, other["mean"] - one["mean"]
    variance = one["variance"] + (other["variance"] - one["variance"]) * share
    return {
        **{"count": count, "mean": one["mean"] + delta * share, "shape": one["shape"]},
        "variance": variance + delta**2 * share * (1 - share),
    }


def give(layer: Any, summary: Summary) -> None:
    """Adapt `layer` from a summary of all examples, on the driver."""
    if "mean" in summary:
        if not layer.built:
            layer.build((None, *summary["shape"]))
        layer.adapt_mean.assign(summary["mean"])
        layer.adapt_variance.assign(summary["variance"])
    elif "points" in summary:
        layer.summary = np.array(sorted(summary["points"].items())).T
    else:
        import tensorflow as tf

        lookup = lookup_of(layer)
        layer.reset_state()
        for table, name in (("token_counts", "tokens"), ("token_document_counts", "documents")):
            if counts := summary.get(name):
                tokens: Any = tf.constant(list(counts), lookup.vocabulary_dtype)
                getattr(lookup, table).insert(tokens, tf.constant(list(counts.values()), tf.int64))
        if lookup.output_mode == "tf_idf":
            lookup.num_documents.assign(summary["examples"][""])
    layer.finalize_state()


def _counts(table: Any) -> dict[Any, int]:
    tokens, counts = (each.numpy().tolist() for each in table.export())
    texts = [token.decode() if isinstance(token, bytes) else token for token in tokens]
    return dict(zip(texts, counts, strict=True))


def _added(one: Summary, other: Summary) -> Summary:
    for name, counts in other.items():
        for key, count in counts:
            one[name][key] = one[name].get(key, 0) + count
    return one
