"""Places of objects: addresses, endpoints, profiles, keys of customers, and private files."""
