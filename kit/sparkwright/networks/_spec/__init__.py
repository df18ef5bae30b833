"""Networks as plain values: layers, shapes, parameter counts, problems; JSON, YAML and code."""
