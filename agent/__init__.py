"""The agent: what reads, orders, remembers and answers around the processors."""

import os

# Before numpy is imported: matrices here are small, and threads that wait for one another take three times as long; with
# another number of cores the last digits of a sum would differ as well.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Before pydantic is: for each model it asks all packages of the environment whether they extend it, and reads them from disk.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
