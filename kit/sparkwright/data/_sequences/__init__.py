"""Sequences from CSV files, one each."""
