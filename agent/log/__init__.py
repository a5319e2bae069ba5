"""The log: `memory` in one process, `kafka` on a broker. Both implement the contract of `processors.contracts.log`."""
