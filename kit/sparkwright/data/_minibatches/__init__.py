"""Minibatches in files: exported, written here, read back, validated."""
