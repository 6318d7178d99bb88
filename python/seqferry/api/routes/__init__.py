"""Routes of the HTTP API, one file for each resource."""
