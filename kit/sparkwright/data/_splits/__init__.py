"""Splits, samples and shuffles: who goes where, and doing it."""
