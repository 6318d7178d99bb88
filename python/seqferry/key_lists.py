r"""Lists that name the objects of a transfer: plain lines of keys, or CSV ``key[,version_id[,target_key]]``.

What must stay true: keys are taken as they are, nothing is decoded; no row is passed over; what is malformed is named
by file, line and column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from seqferry.errors import UsageError
from seqferry.spec import MAX_KEYS, is_s3_uri

Format = Literal["auto", "lines", "csv", "inventory"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of a list: the most keys of the greatest length, with room for versions and names."""

_HEADERS: Final = (["key", "version_id"], ["key", "version_id", "target_key"])
_COLUMNS: Final = ("key", "version id", "target key")
_COLUMN_NAMES: Final = dict(enumerate(_COLUMNS, 1))


class NamedKey(NamedTuple):
    """One object of a list: its key below the source, its version, its name below the target; empty: none is given."""

    key: str
    version_id: str = ""
    target_key: str = ""


def format_of(name: str, asked: Format = "auto") -> Literal["lines", "csv", "inventory"]:
    """The format of a list by its name, unless it was given."""
    if asked != "auto":
        return asked
    if name.rpartition("/")[2] == "manifest.json":
        return "inventory"
    return "csv" if name.lower().endswith(".csv") else "lines"


def read(data: bytes, name: str, form: Literal["lines", "csv"]) -> list[NamedKey]:
    """The rows of a list, each once.

    Args: ``name`` is that of the file, for messages.

    Raises:
        UsageError: the list is malformed, too long, or empty.
    """
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} has more than {MAX_BYTES // 1024**2} MiB; at most {MAX_KEYS:,} keys can be named.")
    text = _decoded(data, name)
    rows = _of_lines(text, name) if form == "lines" else _of_csv(text, name)
    found: dict[tuple[str, str], tuple[int, NamedKey]] = {}
    for line, row in rows:
        before = found.setdefault((row.key, row.version_id), (line, row))
        if before[1] != row:
            raise _fault(
                name, line, 3, f"'{row.key}' is named on line {before[0]} already, with another target; leave one out"
            )
        if len(found) > MAX_KEYS:
            raise _fault(name, line, 1, f"at most {MAX_KEYS:,} keys can be named at once")
    if not found:
        raise UsageError(f"{name} names no object.")
    return [row for _, row in found.values()]


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as why:
        start = data.rfind(b"\n", 0, why.start) + 1
        line = data.count(b"\n", 0, why.start) + 1
        raise _misplaced(name, line, why.start - start + 1, f"not valid UTF-8 ({why.reason})") from None


def _of_lines(text: str, name: str) -> Iterator[tuple[int, NamedKey]]:
    for number, line in enumerate(text.split("\n"), 1):
        key = line.removesuffix("\r")
        if key:
            _check_key(key, name, number)
            yield number, NamedKey(key)


def _of_csv(text: str, name: str) -> Iterator[tuple[int, NamedKey]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as why:
            raise _misplaced(name, *_place_of_quote(text, begins), f"{why}") from None
        if row is None:
            return
        line, begins = begins, reader.line_num + 1
        if not row or (line == 1 and row in _HEADERS):
            continue
        if len(row) > len(_COLUMNS):
            raise _fault(
                name,
                line,
                len(_COLUMNS) + 1,
                "a row has key, version id and target key; quote a key that holds a comma",
            )
        if not row[0]:
            raise _fault(name, line, 1, "the key is empty")
        for column, value in enumerate(row[1:], 2):
            if value != value.strip():
                raise _fault(name, line, column, f"spaces around the {_COLUMNS[column - 1]} '{value}'; remove them")
        _check_key(row[0], name, line)
        yield line, NamedKey(*row)


def _check_key(key: str, name: str, line: int) -> None:
    if is_s3_uri(key):
        raise _fault(name, line, 1, f"'{key}' is a whole address; write the key below SRC")


def _place_of_quote(text: str, line: int) -> tuple[int, int]:
    """Line and column (in characters) of the quote that a reader has stumbled over, in the row that begins at ``line``.

    A quote that is not closed is named where it opens.
    """
    lines = io.StringIO(text, newline="").readlines()[line - 1 :]
    inside, opened, previous = False, (line, 1), ","
    for number, column, sign in (
        (number, at, sign) for number, one in enumerate(lines, line) for at, sign in enumerate(one, 1)
    ):
        if inside:
            if sign == '"':
                inside = False
        elif sign == '"':
            if previous == '"':
                inside = True  # a doubled quote within a field
            elif previous in ",\r\n":
                inside, opened = True, (number, column)
            # A quote within a field that does not begin with one stands for itself.
        elif (previous == '"' and sign not in ",\r\n") or sign == "\n":
            return number, column
        previous = sign
    return opened


def _fault(name: str, line: int, column: int, why: str) -> UsageError:
    return UsageError(f"{name}, line {line}, column {column} ({_COLUMN_NAMES.get(column, 'extra')}): {why}.")


def _misplaced(name: str, line: int, character: int, why: str) -> UsageError:
    return UsageError(f"{name}, line {line}, character {character}: {why}.")
