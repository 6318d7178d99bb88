"""A look before a transfer: buckets, permissions, objects, names, and what it will take."""
