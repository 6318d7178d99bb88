"""The durable flows. Importing this package registers them with DBOS; only the worker does."""

from seqferry.workflows.batch import batch
from seqferry.workflows.transfer import transfer

__all__ = ["batch", "transfer"]
