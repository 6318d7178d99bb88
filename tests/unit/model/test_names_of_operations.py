"""An operation is one object: what it is named is compared in stored data alone."""

from __future__ import annotations

import re
from pathlib import Path

import seqferry
from seqferry.model.operations import OPERATIONS

PACKAGE = Path(seqferry.__file__).parent
STORED = ("model/operations.py", "spec/identity.py", "spec/stored.py")
"""Modules that hold the names, and the forms of specs that are stored or hashed."""

NAME = rf"(?:OPERATION_\w+|operations\.TRANSFER|[\"'](?:{'|'.join(OPERATIONS)})[\"'])"
COMPARED = re.compile(
    rf"(?:operation|kind\.name)\b(?:\"\])? (?:[!=]=|(?:not )?in) [({{\[]*{NAME}"
    rf"|{NAME} [!=]= [\w.]*(?:operation|kind\.name)\b|case {NAME}:"
)


def test_a_comparison_of_a_name_is_found() -> None:
    assert all(
        COMPARED.search(line)
        for line in (
            'spec.operation == "transfer"',
            "if self.operation != OPERATION_PACK:",
            'spec.operation in ("move", "remove")',
            'form["operation"] == OPERATION_TRANSFER',
            '"check" == body.operation',
            "status.spec.kind.name not in {OPERATION_RUN}",
        )
    )
    assert not COMPARED.search('row.error_operation == "plan" or error.operation == "CopyObject"')


def test_names_of_operations_are_compared_in_stored_data_alone() -> None:
    sources = [file for file in PACKAGE.rglob("*.py") if file.relative_to(PACKAGE).as_posix() not in STORED]
    sources = [file for file in sources if not {"migrations", "operations"} & {*file.relative_to(PACKAGE).parts}]

    assert len(sources) > 300
    assert not [
        (file.name, line) for file in sources for line in file.read_text().splitlines() if COMPARED.search(line)
    ]
