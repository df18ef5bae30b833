"""Normalizers of features and labels: fitted in one pass, applied and reverted, stored as JSON."""

from .kinds import (
    ImageScale as ImageScale,
    MinMaxScale as MinMaxScale,
    NormalizerChain as NormalizerChain,
    Standardize as Standardize,
    normalizer_from_dict as normalizer_from_dict,
)
from .normalizer import Normalizer as Normalizer
