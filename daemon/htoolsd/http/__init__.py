"""A read-only HTTP listener, off by default: the page about the cluster, the metrics and the health."""
