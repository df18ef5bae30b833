"""CSV, Parquet and Arrow files: which columns become which arrays, and reading them."""
