"""Where data comes from, as plain values: kept in files, made code, loaded."""
