"""The verbs that every interface (CLI, HTTP API) calls."""
