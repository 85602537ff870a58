"""Comparison of two answers to one request: ours and that of another program, or of another time."""
