"""Metrics for Prometheus: their declarations, and figures that are computed only for them."""
