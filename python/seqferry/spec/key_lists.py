r"""Lists that name the objects of a transfer: plain lines of keys, or CSV ``key[,version_id[,target_key]]``.

The first row of a CSV list may be a header with these names in any order. A list with a header may have semicolons or
tabs between its columns, as spreadsheets write them.

What must stay true: keys are taken as they are, nothing is decoded; no row is passed over; what is malformed is named
by file, line and column.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from seqferry.model import encoding
from seqferry.model.errors import UsageError
from seqferry.spec.addresses import is_s3_uri
from seqferry.spec.option_groups import ListFormat
from seqferry.spec.validation import MAX_KEYS

MAX_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of a list: the most keys of the greatest length, with room for versions and names."""

_COLUMNS: Final = ("key", "version id", "target key")
"""The columns, in the order of a list without a header."""

_HEADERS: Final = {column.replace(" ", ""): column for column in _COLUMNS}
_BETWEEN_WORDS: Final = r"[\s_-]+"
_SEPARATOR: Final = r"sep=([,;\t])\r?\n"
"""A first line by which Excel tells the sign between columns."""


class NamedKey(NamedTuple):
    """One object of a list: its key below the source, its version, its name below the target; empty: none is given."""

    key: str
    version_id: str = ""
    target_key: str = ""


def detect_format(name: str, asked: ListFormat = "auto") -> Literal["lines", "csv", "inventory"]:
    """The format of a list by its name, unless it was given."""
    if asked != "auto":
        return asked
    if name.rpartition("/")[2] == "manifest.json":
        return "inventory"
    return "csv" if name.lower().endswith((".csv", ".tsv")) else "lines"


def read(data: bytes, name: str, form: Literal["lines", "csv"]) -> list[NamedKey]:
    """The rows of a list, each once.

    Args: ``name`` is that of the file, for messages.

    Raises:
        UsageError: the list is malformed, too long, or empty.
    """
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} has more than {MAX_BYTES // 1024**2} MiB; at most {MAX_KEYS:,} keys can be named.")
    text = _decode(data, name)
    rows = _of_lines(text, name) if form == "lines" else _of_csv(text, name)
    found: dict[tuple[str, str], tuple[int, NamedKey]] = {}
    for line, row in rows:
        before = found.setdefault((row.key, row.version_id), (line, row))
        if before[1] != row:
            raise _error_at(
                name,
                line,
                "column 3 (target key)",
                f"'{row.key}' is named on line {before[0]} already, with another target; leave one out",
            )
        if len(found) > MAX_KEYS:
            raise _fault(name, line, _COLUMNS, "key", f"at most {MAX_KEYS:,} keys can be named")
    if not found:
        raise UsageError(f"{name} names no object.")
    return [row for _, row in found.values()]


def _decode(data: bytes, name: str) -> str:
    try:
        return encoding.decode(data)
    except UnicodeDecodeError as why:
        if why.encoding != "utf-8":
            raise UsageError(f"{name} is not valid UTF-16 ({why.reason}); save it as UTF-8.") from None
        start = why.object.rfind(b"\n", 0, why.start) + 1
        line = why.object.count(b"\n", 0, why.start) + 1
        raise _error_at(name, line, f"character {why.start - start + 1}", f"not valid UTF-8 ({why.reason})") from None


def _of_lines(text: str, name: str) -> Iterator[tuple[int, NamedKey]]:
    for number, line in enumerate(text.split("\n"), 1):
        key = line.removesuffix("\r")
        if key:
            _check_key(key, name, number)
            yield number, NamedKey(key)


def _of_csv(text: str, name: str) -> Iterator[tuple[int, NamedKey]]:
    delimiter, columns = _delimiter(text, name), _COLUMNS
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    begins, is_first = 1, True
    while True:
        try:
            row = next(reader, None)
        except csv.Error as why:
            raise _error_at(name, *_place_of_quote(text, begins, delimiter), f"{why}") from None
        if row is None:
            return
        line, begins = begins, reader.line_num + 1
        if not row or (line == 1 and re.match(_SEPARATOR, text, flags=re.IGNORECASE)):
            continue
        if is_first:
            is_first = False
            if (named := _header(row, name, line)) is not None:
                columns = named
                continue
        yield line, _parse_row(row, columns, name, line)


def _delimiter(text: str, name: str) -> str:
    """The sign between columns: that of the file's first row where it is a header or says so, as Excel writes it."""
    if (written := re.match(_SEPARATOR, text, flags=re.IGNORECASE)) is not None:
        return written[1]
    if name.lower().endswith(".tsv"):
        return "\t"
    first = text.lstrip("\r\n").splitlines()[:1]
    for sign in ";\t":
        cells = [cell.strip().strip('"') for cell in first[0].split(sign)] if first else []
        if len(cells) > 1 and _column_of(cells[0]) is not None and all(_column_of(cell) for cell in cells if cell):
            return sign
    return ","


def _column_of(cell: str) -> str | None:
    """The column that a header names: ``Version-Id``, ``VersionId`` and ``version id`` are one."""
    return _HEADERS.get(re.sub(_BETWEEN_WORDS, "", cell.strip()).lower())


def _header(row: list[str], name: str, line: int) -> tuple[str, ...] | None:
    """The columns of a first row that is a header; None: it names an object.

    Raises:
        UsageError: a header has an unknown column, a column twice, or no column of keys.
    """
    cells = _without_empty_end(row, 0)
    known = [_column_of(cell) for cell in cells]
    if None in known and known[:1] != ["key"]:
        return None
    for column, (cell, found) in enumerate(zip(cells, known, strict=True), 1):
        if found is None or found in known[: column - 1]:
            raise _error_at(
                name,
                line,
                f"column {column}",
                f"the header has '{cell}', and a list has the columns key, version_id and target_key, each once. Leave "
                "the column out; if this row is an object of the name 'key', write a header above it",
            )
    if "key" not in known:
        raise _error_at(name, line, "column 1", "the header has no column key")
    return tuple(found for found in known if found is not None)


def _parse_row(row: list[str], columns: tuple[str, ...], name: str, line: int) -> NamedKey:
    row = _without_empty_end(row, len(columns))
    if len(row) > len(columns):
        known = ", ".join(columns)
        raise _error_at(
            name,
            line,
            f"column {len(columns) + 1} (extra)",
            f"the columns are {known}; quote a key that holds the sign between them",
        )
    cells = dict(zip(columns, row, strict=False))
    key, others = cells.get("key", ""), {column: cell for column, cell in cells.items() if column != "key"}
    if not key:
        raise _fault(name, line, columns, "key", "the key is empty")
    for column, value in others.items():
        if value != value.strip():
            raise _fault(name, line, columns, column, f"spaces around the {column} '{value}'; remove them")
    _check_key(key, name, line, columns)
    return NamedKey(key, others.get("version id", ""), others.get("target key", ""))


def _without_empty_end(row: list[str], least: int) -> list[str]:
    """``row`` without the empty cells that spreadsheets write at its end, but so many columns."""
    end = len(row)
    while end > max(least, 1) and not row[end - 1]:
        end -= 1
    return row[:end]


def _check_key(key: str, name: str, line: int, columns: tuple[str, ...] = _COLUMNS) -> None:
    if is_s3_uri(key):
        raise _fault(name, line, columns, "key", f"'{key}' is a whole address; write the key below SRC")


def _place_of_quote(text: str, line: int, delimiter: str) -> tuple[int, str]:
    """Line and column (in characters) of the quote that a reader has stumbled over, in the row that begins at ``line``.

    A quote that is not closed is named where it opens.
    """
    lines = io.StringIO(text, newline="").readlines()[line - 1 :]
    inside, opened, previous = False, (line, 1), delimiter
    ends = f"{delimiter}\r\n"
    for number, column, sign in (
        (number, at, sign) for number, one in enumerate(lines, line) for at, sign in enumerate(one, 1)
    ):
        if inside:
            if sign == '"':
                inside = False
        elif sign == '"':
            if previous == '"':
                inside = True  # a doubled quote within a field
            elif previous in ends:
                inside, opened = True, (number, column)
            # A quote within a field that does not begin with one stands for itself.
        elif (previous == '"' and sign not in ends) or sign == "\n":
            return number, f"character {column}"
        previous = sign
    return opened[0], f"character {opened[1]}"


def _fault(name: str, line: int, columns: tuple[str, ...], column: str, why: str) -> UsageError:
    return _error_at(name, line, f"column {columns.index(column) + 1} ({column})", why)


def _error_at(name: str, line: int, where: str, why: str) -> UsageError:
    return UsageError(f"{name}, line {line}, {where}: {why}.")
