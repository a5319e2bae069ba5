"""The log: `memory` in one process, `kafka` on a broker; both keep the contract of `processors.contracts.log`."""
