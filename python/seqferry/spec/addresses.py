"""Addresses that people write: ``s3://bucket/key``, and which keys there can be."""

from __future__ import annotations

from typing import Final

from seqferry.model.errors import UsageError

MAX_KEY_BYTES: Final = 1024


def check_key(key: str) -> None:
    if check_utf8_key(key) > MAX_KEY_BYTES:
        raise UsageError(f"'{key[:80]}...' is longer than the {MAX_KEY_BYTES} bytes that S3 allows for a key.")


def check_utf8_key(key: str) -> int:
    try:
        return len(key.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError(
            f"'{escape(key)}' is not valid UTF-8, and S3 keys are; check the terminal's encoding."
        ) from None


def escape(text: str) -> str:
    """``text`` with escapes for what is not valid UTF-8, so that it can be printed and sent."""
    return text.encode("utf-8", "backslashreplace").decode()


FORM: Final = "write s3://bucket/prefix/ or s3://bucket/key"


def is_s3_uri(text: str) -> bool:
    return text.startswith("s3://")


def parse_uri(text: str) -> tuple[str, str]:
    """Bucket and key (or prefix, or nothing) of ``s3://bucket/key``. Keys are taken as they are: nothing is decoded.

    Raises:
        UsageError: the text is no S3 address, or its bucket or key is not valid.
    """
    if not is_s3_uri(text):
        if text.lower().startswith("s3:"):
            meant = "s3://" + text[len("s3:") :].lstrip("/")
            raise UsageError(
                f"'{escape(text)}' looks like a mistyped s3:// address (did you mean '{escape(meant)}'?); {FORM}."
            )
        form = "write the path alone, without file://" if text.lower().startswith("file://") else FORM
        raise UsageError(f"'{escape(text)}' is not an S3 address; {form}.")
    bucket, _, key = text.removeprefix("s3://").partition("/")
    if not bucket:
        raise UsageError(f"'{escape(text)}' names no bucket; {FORM}.")
    if "@" in bucket:
        # Not shown: it may hold a password.
        raise UsageError(f"An S3 address holds no credentials, and no bucket's name an @; {FORM}.")
    if any(character.isspace() or character in "?#:\\" or not character.isprintable() for character in bucket):
        raise UsageError(f"'{escape(text)}': '{escape(bucket)}' cannot be the name of a bucket; {FORM}.")
    check_key(key)
    return bucket, key
