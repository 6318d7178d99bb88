"""Lists of keys: what their rows name, and where a malformed one is at fault."""

from __future__ import annotations

import pytest

from seqferry.errors import UsageError
from seqferry.key_lists import NamedKey, format_of, read


def test_lines_are_keys_as_they_are() -> None:
    found = read(b"a,b\r\n\nc d\na,b\n%20", "keys", "lines")

    assert found == [NamedKey("a,b"), NamedKey("c d"), NamedKey("%20")]


def test_rows_of_csv_name_versions_and_targets() -> None:
    rows = b'\xef\xbb\xbfkey,version_id,target_key\n"a,""b"" ",v1,x\nplain\nc,,y\n"two\nlines",v2\n'

    assert read(rows, "list.csv", "csv") == [
        NamedKey('a,"b" ', "v1", "x"),
        NamedKey("plain"),
        NamedKey("c", "", "y"),
        NamedKey("two\nlines", "v2"),
    ]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"a\nb,v,t,more\n", "line 2, column 4 (extra)"),
        (b"a\n,v\n", "line 2, column 1 (key)"),
        (b"a, v\n", "line 1, column 2 (version id)"),
        (b"a,v,t \n", "line 1, column 3 (target key)"),
        (b'a\n"b"c,v\n', "line 2, character 4"),
        (b'a\n"b\nc\n', "line 2, character 1"),
        (b'"two\nlines"x\n', "line 2, character 7"),
        (b"a\nb\xff\n", "line 2, character 2"),
        (b"a\ns3://b/k\n", "line 2, column 1 (key)"),
        (b"a,,x\na,,y\n", "line 2, column 3 (target key)"),
        (b"\n\n", "names no object"),
        (b"", "names no object"),
    ],
)
def test_a_malformed_list_is_named_by_file_line_and_column(data: bytes, where: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(data, "list.csv", "csv")

    assert "list.csv" in refused.value.message
    assert where in refused.value.message


def test_the_format_goes_by_the_name_unless_it_is_given() -> None:
    assert [format_of(name) for name in ("keys", "a.CSV", "x/manifest.json", "-")] == [
        "lines",
        "csv",
        "inventory",
        "lines",
    ]
    assert format_of("keys", "csv") == "csv"
