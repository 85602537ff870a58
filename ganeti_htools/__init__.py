"""The library; see ``docs/architecture.md``."""

import os

# NumPy's linear algebra is not used here: at every start its threads would only take time from others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
