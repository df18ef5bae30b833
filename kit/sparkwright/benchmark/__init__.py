"""Measurements on the user's own cluster, and advice that rests on them."""

from ._advise import advise as advise
from ._front import benchmark as benchmark
