"""Several sources joined by key."""
