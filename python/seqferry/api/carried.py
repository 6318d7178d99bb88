"""Fields of requests for what objects carry besides their bytes; as the options of ``seqferry cp``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from seqferry.carrying import ChecksumAlgorithm, CopyProps, LockMode, MetadataDirective, Sse

_Text = Annotated[str, Field(min_length=1, max_length=2048)]


class CarriedFields(BaseModel):
    sse: Sse | None = None
    """Encryption of the copies. By default what is encrypted stays so; ``none``: as the bucket does by default."""
    sse_kms_key_id: _Text | None = None
    sse_c_key: _Text | None = Field(default=None, examples=["env:SEQFERRY_SSE_C_LAB"])
    """A variable of the server, whose name starts with ``SEQFERRY_SSE_C_``, that holds the customer's key."""
    sse_c_copy_source_key: _Text | None = None
    acl: _Text | None = None
    grants: list[_Text] | None = Field(default=None, max_length=100)
    request_payer: Literal["requester"] | None = None
    object_lock: Literal["copy"] | None = None
    object_lock_mode: LockMode | None = None
    object_lock_until: _Text | None = None
    object_lock_legal_hold: bool = False
    content_type: _Text | None = None
    content_encoding: _Text | None = None
    content_language: _Text | None = None
    content_disposition: _Text | None = None
    cache_control: _Text | None = None
    expires: _Text | None = None
    metadata: dict[str, str] | None = Field(default=None, max_length=100)
    metadata_directive: MetadataDirective | None = None
    tags: dict[str, str] | None = Field(default=None, max_length=10)
    copy_props: CopyProps | None = None
    checksum_algorithm: ChecksumAlgorithm | None = None
