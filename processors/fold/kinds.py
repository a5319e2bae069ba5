"""Every kind of processor whose state a shard keeps: those of jobs, and those of hosts."""

from typing import Final

from processors.fold import desk, host_desk
from processors.profiles.ledger import ARRAYS

STATEFUL: Final = (*desk.STATEFUL, *host_desk.COLUMNS, *host_desk.SHELVED)
PROCESSORS: Final = tuple(processor.name for processor in STATEFUL) + ARRAYS
