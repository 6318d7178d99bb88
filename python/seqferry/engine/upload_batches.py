"""Upload batches of a gateway, or of a mount that is written, as the native module hands them over."""

from __future__ import annotations

from seqferry._native import Gateway, ShareMount, UploadBatch, UploadOutcome

UploadBatchSource = Gateway | ShareMount

__all__ = ["UploadBatch", "UploadBatchSource", "UploadOutcome"]
