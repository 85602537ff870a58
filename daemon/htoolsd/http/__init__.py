"""A read-only HTTP listener, off by default: the metrics and the health, for monitoring systems."""
