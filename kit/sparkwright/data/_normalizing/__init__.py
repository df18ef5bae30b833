"""Normalizers: fitted on data, applied, reverted, kept with a model."""
