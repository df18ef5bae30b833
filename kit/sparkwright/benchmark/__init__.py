"""Measurements on the user's own cluster, and recommendations based on them."""

from ._front import benchmark as benchmark
