"""Requests of transfers: their options, checked, resolved, stored and compared."""
