"""One module per tool, and what they share."""

import os

# The tools multiply small matrices only. Without this, NumPy's library for matrices starts a thread for
# each processor before any work is done.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
