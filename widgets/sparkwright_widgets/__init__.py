"""Notebook widgets for Sparkwright."""
