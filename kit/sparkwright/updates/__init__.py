"""Threshold encoding of updates: large elements are sent in a few bits; the rest stays local."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._decode import apply as apply, selected_values as selected_values
    from ._encode import encode_difference as encode_difference
    from ._format import Encoded as Encoded, EncodedSegment as EncodedSegment
    from ._residual import (
        ResidualClipping as ResidualClipping,
        ResidualStatistics as ResidualStatistics,
        residual_sample as residual_sample,
        residual_statistics as residual_statistics,
    )
    from ._thresholds import (
        BITMAP_SPARSITY as BITMAP_SPARSITY,
        AdaptiveThreshold as AdaptiveThreshold,
        FixedThreshold as FixedThreshold,
        TargetSparsity as TargetSparsity,
        ThresholdAlgorithm as ThresholdAlgorithm,
        ThresholdState as ThresholdState,
        choose_threshold as choose_threshold,
        expected_sparsity as expected_sparsity,
    )

__getattr__, __dir__ = _lazy_names(__name__)
