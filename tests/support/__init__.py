"""Instruments of the Python tests and benches: servers, a fault proxy, data, processes."""
