"""Shared Spark helpers: jobs, task slots, error translation, shipping the package to executors."""
