"""The HTTP API: translates requests into calls of the service, and errors into problem documents."""

from seqferry.api.app import create_app

__all__ = ["create_app"]
