"""Recorded decisions: each with all that it used, so that it can be made again."""
