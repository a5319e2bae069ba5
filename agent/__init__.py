"""The agent around the processors: it reads sources, orders and stores events, and answers requests."""

import os

# Before numpy is imported: the agent's matrices are small, and a computation whose threads wait for one another takes three
# times as long. The last digits of a sum would also depend on the number of cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Before pydantic is imported: for each model, pydantic searches all installed packages for plugins and reads them from disk.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
