"""Vocabulary of all packages: transfers as values, errors, names that are stored, and how values are written."""
