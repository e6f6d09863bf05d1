"""The ledger: what was found set against what the allocator, the driver and the system say."""
