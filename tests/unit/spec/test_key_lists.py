"""Lists of keys: what their rows name, and where a malformed one is at fault."""

from __future__ import annotations

import pytest

from seqferry.model.errors import UsageError
from seqferry.spec.key_lists import NamedKey, detect_format, read


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
    "header",
    [
        "key,version_id,target_key",
        '"key","version_id","target_key"',
        "Key,VersionId,Target Key",
        "KEY,VERSION-ID,TARGET_KEY",
        " key , version_id , target_key ",
        "key,version_id,target_key,",
        "\n\nkey,version_id,target_key",
        "sep=,\nkey,version_id,target_key",
    ],
)
@pytest.mark.parametrize("sign", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_header_is_known_in_the_forms_of_spreadsheets(header: str, sign: str, end: str, encoding: str) -> None:
    text = f'{header}\n"a,;\t"",é",v1,x\nb,,y\nc,,,\n'
    signs = text.replace("a,;\t", "QUOTED").replace(",", sign).replace("QUOTED", "a,;\t")

    found = read(signs.replace("\n", end).encode(encoding), "list.csv", "csv")

    assert found == [NamedKey('a,;\t",é'.replace('",', f'"{sign}'), "v1", "x"), NamedKey("b", "", "y"), NamedKey("c")]


def test_a_header_may_have_the_key_alone_or_its_columns_in_another_order() -> None:
    for header in (b"key", b'"key"', b"Key", b"\xef\xbb\xbfkey", b"key,", b"\r\nkey"):
        assert read(header + b"\r\na;b\r\nc\r\n", "list.csv", "csv") == [NamedKey("a;b"), NamedKey("c")], header
    assert read(b"target_key;key\nx;a\n;b\n", "list.csv", "csv") == [NamedKey("a", "", "x"), NamedKey("b")]
    assert read(b"a\tv1\nb\n", "list.tsv", "csv") == [NamedKey("a", "v1"), NamedKey("b")]
    # Objects of these names, below the first row and without a header.
    assert read(b"a\nkey\nversion_id\n", "list.csv", "csv") == [NamedKey(one) for one in ("a", "key", "version_id")]
    assert read(b"a;b\nc\td\n", "list.csv", "csv") == [NamedKey("a;b"), NamedKey("c\td")]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"key,size\na,5\n", "line 1, column 2: the header has 'size'"),
        (b"key,key\na,b\n", "line 1, column 2: the header has 'key'"),
        (b"\nversion_id,target_key\nv,t\n", "line 2, column 1: the header has no column key"),
        (b"target_key,key\nx,\n", "line 2, column 2 (key)"),
        (b"key\na,v\n", "line 2, column 2 (extra)"),
        (b"key;version_id\na; v\n", "line 2, column 2 (version id)"),
        (b'key;version_id\n"a"b;v\n', "line 2, character 4"),
        (b"\xff\xfea", "not valid UTF-16"),
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
    assert [detect_format(name) for name in ("keys", "a.CSV", "a.tsv", "x/manifest.json", "-")] == [
        "lines",
        "csv",
        "csv",
        "inventory",
        "lines",
    ]
    assert detect_format("keys", "csv") == "csv"
