"""A look at this machine and at storages: what works, and what does not."""
