"""Measurements on the user's own cluster, and advice that rests on them."""

from ._front import benchmark as benchmark
