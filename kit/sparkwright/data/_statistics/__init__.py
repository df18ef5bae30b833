"""Statistics of columns and labels, mergeable."""
