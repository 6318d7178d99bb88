"""Environment twins of options, as defaults for the jobs of a server."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from seqferry.api.schemas import TransferRequest
from seqferry.model.errors import UsageError
from seqferry.model.option_fields import option_fields
from seqferry.spec import job_defaults
from seqferry.spec.option_groups import OF_REQUESTS


def test_values_are_those_that_a_request_has() -> None:
    found = job_defaults.read(
        {
            "SEQFERRY_PART_SIZE": "16MiB",
            "SEQFERRY_COPY_THRESHOLD": "64MiB",
            "SEQFERRY_IF_EXISTS": "skip",
            "SEQFERRY_VERIFY": "checksum",
            "SEQFERRY_RESTORE": "yes",
            "SEQFERRY_RAW": "0",
            "SEQFERRY_STORAGE_CLASS": "STANDARD_IA",
            "SEQFERRY_TAGS": "run=42 lab=a",
            "SEQFERRY_MAX_REQUESTS": "7",
            "SEQFERRY_SETTLE": "",
            "AWS_PROFILE": "lab",
        }
    )

    assert found == {
        "part_size": 16 * 2**20,
        "copy_threshold": 64 * 2**20,
        "if_exists": "skip",
        "verify": "checksum",
        "restore": True,
        "raw": False,
        "storage_class": "STANDARD_IA",
        "tags": {"run": "42", "lab": "a"},
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SEQFERRY_PART_SIZE", "much"),
        ("SEQFERRY_RESTORE", "perhaps"),
        ("SEQFERRY_RESTORE_DAYS", "a week"),
        ("SEQFERRY_TAGS", "run"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        job_defaults.read({name: value})


def test_every_option_of_a_request_has_a_twin() -> None:
    body: type[BaseModel] = TransferRequest
    for group in OF_REQUESTS:
        for field in option_fields(group):
            if field.option.http is not None:
                assert field.name in body.model_fields
                assert job_defaults.variable_of(field.name).startswith("SEQFERRY_")
