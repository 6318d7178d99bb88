"""From what a person wrote to what is copied where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.model.option_groups import Parts
from seqferry.planning import decision
from seqferry.spec import stored
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import build_mirror_spec, build_spec
from seqferry.spec.target_keys import source_key, target_key
from seqferry.spec.validation import data_path, streaming_reason, validate_spec


@pytest.mark.parametrize(
    ("text", "bucket", "key"),
    [
        ("s3://b", "b", ""),
        ("s3://b/", "b", ""),
        ("s3://b/run42/", "b", "run42/"),
        ("s3://b/run42/a b+c%20.gz", "b", "run42/a b+c%20.gz"),
        ("s3://b//leading", "b", "/leading"),
        ("s3://b/ä/名", "b", "ä/名"),
        ("s3://b/what?*#&", "b", "what?*#&"),
    ],
)
def test_an_address_is_bucket_and_key_as_written(text: str, bucket: str, key: str) -> None:
    assert parse_uri(text) == (bucket, key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b/key",
        "s3://",
        "s3:///key",
        "http://b/key",
        "s3://b b/key",
        "s3://b?x/",
    ],
)
def test_what_is_no_address_is_refused_with_the_form_of_one(text: str) -> None:
    with pytest.raises(UsageError, match="s3://bucket/") as refused:
        parse_uri(text)

    assert text in refused.value.message


@pytest.mark.parametrize("text", ["s3:/b/key", "S3://b/key", "s3:b/key"])
def test_a_mistyped_address_is_told_as_one(text: str) -> None:
    for build in (lambda: parse_uri(text), lambda: build_spec(text, "s3://c/"), lambda: build_spec("s3://c/", text)):
        with pytest.raises(UsageError, match="did you mean 's3://b/key'"):
            build()


def test_an_address_with_credentials_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="s3://bucket/") as refused:
        parse_uri("s3://key:hunter2@b/")

    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    "build",
    [
        lambda: parse_uri("s3://\ud800/"),
        lambda: parse_uri("\ud800"),
        lambda: build_mirror_spec("\ud800", "", None, "b", ""),
        lambda: build_mirror_spec("a", "", ["f", "\ud800"], "b", ""),
        lambda: build_spec("s3://a/", "s3://b/", region="\ud800"),
        lambda: build_spec("s3://a/", "s3://b/", source_profile="\ud800"),
        lambda: build_spec("s3://a/", "s3://b/", target_profile="\ud800"),
        lambda: build_spec("s3://a/", "s3://b/", storage_class="\ud800"),
        lambda: build_spec("s3://a/", "s3://b/", if_exists="\ud800"),
        lambda: build_spec("s3://a/", "s3://b/", endpoint_url="http://\ud800"),
        lambda: build_spec("s3://a/", "s3://b/", endpoint_url="\ud800"),
        lambda: build_spec("s3://a/", "\ud800"),
        lambda: build_spec("s3://a/", "\ud800", allow_local=True),
        lambda: build_spec("\ud800", "s3://a/", allow_local=True),
    ],
)
def test_halves_of_characters_are_refused_in_a_message_that_can_be_sent(build: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="ud800") as refused:
        build()

    refused.value.message.encode("utf-8")


def test_a_key_longer_than_s3_allows_is_refused() -> None:
    assert parse_uri("s3://b/" + "é" * 512)[1] == "é" * 512
    with pytest.raises(UsageError, match="1024 bytes"):
        parse_uri("s3://b/" + "é" * 512 + "x")


def test_a_key_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid UTF-8") as refused:
        parse_uri("s3://b/bad\udcff")

    refused.value.message.encode("utf-8")


@pytest.mark.parametrize(
    ("source", "target", "key", "expected"),
    [
        # Everything below: with and without the slash of the target.
        ("s3://a/run/", "s3://b/x", "run/f", "x/f"),
        ("s3://a/run/", "s3://b/x/", "run/f", "x/f"),
        ("s3://a/run/", "s3://b", "run/f", "f"),
        ("s3://a/run/", "s3://b/", "run/d/f", "d/f"),
        ("s3://a", "s3://b/x", "run/f", "x/run/f"),
        ("s3://a/", "s3://b", "run/f", "run/f"),
        # Only the start of the key is touched.
        ("s3://a/run/", "s3://b/x/", "run/run/run/f", "x/run/run/f"),
        ("s3://a/run/", "s3://b/x/", "run/", "x/"),
        # One object: the exact key, or its name below a prefix.
        ("s3://a/run/f.gz", "s3://b/x", "run/f.gz", "x"),
        ("s3://a/run/f.gz", "s3://b/x/", "run/f.gz", "x/f.gz"),
        ("s3://a/run/f.gz", "s3://b", "run/f.gz", "f.gz"),
    ],
)
def test_where_an_object_goes(source: str, target: str, key: str, expected: str) -> None:
    assert target_key(build_spec(source, target), key) == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("s3://a/run/", "s3://a/run/"),
        ("s3://a/run/", "s3://a/run"),
        ("s3://a/run/f", "s3://a/run/f"),
        ("s3://a/run/f", "s3://a/run/"),
        ("s3://a", "s3://a/"),
    ],
)
def test_a_source_that_is_the_target_is_refused(source: str, target: str) -> None:
    with pytest.raises(UsageError, match="are the same"):
        build_spec(source, target)


@pytest.mark.parametrize(("source", "target"), [("s3://a/run/", "s3://a/run/copy/"), ("s3://a", "s3://a/copy")])
def test_a_target_inside_the_source_is_refused(source: str, target: str) -> None:
    with pytest.raises(UsageError, match="lies inside the source"):
        build_spec(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("s3://a/run/", "s3://a/run2/"),
        ("s3://a/run/f", "s3://a/run/g"),
        ("s3://a/run/", "s3://b/run/copy/"),
        ("s3://a/run/copy/", "s3://a/run/"),
    ],
)
def test_neighbours_are_not_taken_for_the_same(source: str, target: str) -> None:
    build_spec(source, target)


def test_the_same_bucket_name_elsewhere_is_the_same_only_on_one_endpoint() -> None:
    with pytest.raises(UsageError, match="are the same"):
        build_spec(
            "s3://a/run/",
            "s3://a/run/",
            source_endpoint_url="https://S3.example.org:443/",
            target_endpoint_url="https://s3.example.org",
        )
    build_spec("s3://a/run/", "s3://a/run/", source_endpoint_url="https://one.example.org")


def test_options_of_one_side_win() -> None:
    spec = build_spec(
        "s3://a/run/",
        "s3://b/",
        endpoint_url="http://127.0.0.1:1",
        region="eu-west-1",
        target_region="us-west-2",
        profile="lab",
        source_profile="vendor",
        no_sign_request=True,
    )

    assert spec.source == S3Location("a", "run/", "http://127.0.0.1:1", "eu-west-1", "vendor", anonymous=True)
    assert spec.target == S3Location("b", "", "http://127.0.0.1:1", "us-west-2", "lab", anonymous=False)


@pytest.mark.parametrize(
    ("source", "target"), [("/data/run", "s3://b/x/"), ("s3://b/x/", "./here"), ("run/", "s3://b")]
)
def test_a_local_path_is_refused_unless_allowed(source: str, target: str) -> None:
    with pytest.raises(UsageError, match="local path"):
        build_spec(source, target)


def test_two_local_paths_are_refused() -> None:
    with pytest.raises(UsageError, match=r"both local paths.*cp or rsync"):
        build_spec("/data/run", "/data/copy", allow_local=True)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``run/f.gz`` in the folder we are in."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/f.gz").write_bytes(b"reads")
    monkeypatch.chdir(tmp_path)
    return tmp_path.resolve()


@pytest.mark.parametrize(
    ("source", "target", "key", "expected"),
    [
        # A folder means everything below it, with and without its last slash.
        ("run", "s3://b/x", "f.gz", "x/f.gz"),
        ("run/", "s3://b/x/", "d/f.gz", "x/d/f.gz"),
        ("./run/.", "s3://b", "f.gz", "f.gz"),
        (".", "s3://b/x", "run/f.gz", "x/run/f.gz"),
        # One file: the exact key, or its name below a prefix.
        ("run/f.gz", "s3://b/x", "f.gz", "x"),
        ("run/f.gz", "s3://b/x/", "f.gz", "x/f.gz"),
        ("run/f.gz", "s3://b", "f.gz", "f.gz"),
    ],
)
def test_where_a_file_goes(here: Path, source: str, target: str, key: str, expected: str) -> None:
    spec = build_spec(source, target, endpoint_url="http://127.0.0.1:1", allow_local=True)

    assert target_key(spec, key) == expected
    assert spec.source == LocalFolder(spec.source.container, spec.source.key)
    assert spec.target.endpoint_url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("source", "target", "key", "path"),
    [
        ("s3://b/x/", "new", "x/d/f", "new/d/f"),
        ("s3://b/x/", "new/", "x/f", "new/f"),
        ("s3://b", "run", "x/f", "run/x/f"),
        # One object: the exact path, or its name in a folder.
        ("s3://b/x/f.gz", "new", "x/f.gz", "new"),
        ("s3://b/x/f.gz", "new/", "x/f.gz", "new/f.gz"),
        ("s3://b/x/f.gz", "run", "x/f.gz", "run/f.gz"),
        ("s3://b/x/f.gz", ".", "x/f.gz", "f.gz"),
        ("s3://b/x/f.gz", "run/g.gz", "x/f.gz", "run/g.gz"),
    ],
)
def test_where_an_object_goes_on_a_disk(here: Path, source: str, target: str, key: str, path: str) -> None:
    spec = build_spec(source, target, allow_local=True)

    assert spec.target.at(target_key(spec, key)) == f"{here}/{path}"
    assert isinstance(spec.target, LocalFolder)


def test_a_folder_is_kept_as_the_place_that_links_lead_to(here: Path) -> None:
    (here / "latest").symlink_to("run")

    assert build_spec("latest", "s3://b", allow_local=True).source.uri == f"{here}/run/"
    assert build_spec("s3://b/", "latest/new", allow_local=True).target.uri == f"{here}/run/new/"


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("run/g.gz", "s3://b/", "Cannot read 'run/g.gz': No such file"),
        ("run/f.gz/", "s3://b/", "write 'run/f.gz'"),
        ("/dev/null", "s3://b/", "neither a file nor a folder"),
        ("-", "s3://b/x", "standard input"),
        ("s3://b/x", "-", "standard input"),
        ("", "s3://b/", "empty"),
        ("s3://b/x/", "run/f.gz", "no folder"),
        ("s3://b/x/f", "run/f.gz/", "no folder"),
        ("run\udcff", "s3://b/", "not valid UTF-8"),
        ("s3://b/x/", "run\0x", "NUL"),
    ],
)
def test_a_path_that_makes_no_sense_is_refused_with_the_reason(here: Path, source: str, target: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        build_spec(source, target, allow_local=True)

    assert said in refused.value.message
    refused.value.message.encode("utf-8")


def test_everything_below_is_meant_also_without_a_last_slash() -> None:
    spec = build_spec("s3://a/run", "s3://b/in", below=True)

    assert (spec.source.key, spec.single, target_key(spec, "run/f")) == ("run/", False, "in/f")
    assert source_key(spec, "in/d/f") == "run/d/f"


@pytest.mark.parametrize(
    ("source", "target", "options", "said"),
    [
        ("s3://a/run/f", "s3://b/", {"delete": True}, "not for named objects"),
        ("s3://a/run/", "s3://b/", {"max_delete": 3}, "give both"),
        ("s3://a/run/", "s3://b/", {"delete": True, "max_delete": -1}, "0 or more"),
        ("s3://a/run/vendor/", "s3://a/run/", {"delete": True}, "would remove it"),
        ("s3://a/run/", "s3://a", {"delete": True}, "would remove it"),
        ("run/f.gz", "s3://b/", {"below": True}, "use cp"),
    ],
)
def test_removing_what_must_stay_is_refused(
    here: Path, source: str, target: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        build_spec(source, target, allow_local=True, **options)


def test_a_word_for_links_that_is_none_is_refused(here: Path) -> None:
    with pytest.raises(UsageError, match="--symlinks"):
        build_spec("run", "s3://b", symlinks="chase", allow_local=True)


def test_a_storage_class_on_a_disk_is_refused() -> None:
    with pytest.raises(UsageError, match="--storage-class"):
        build_spec("s3://b/x/", "new", storage_class="GLACIER", allow_local=True)


@pytest.mark.parametrize("target", ["s3://b/x/", "new"])
def test_the_md5_of_what_is_no_file_is_refused(here: Path, target: str) -> None:
    with pytest.raises(UsageError, match=r"--md5 is for local files .* the source is s3://a/x/"):
        build_spec("s3://a/x/", target, md5=True, allow_local=True)


def test_the_md5_of_files_is_part_of_the_spec(here: Path) -> None:
    spec = build_spec("run", "s3://b", md5=True, allow_local=True)

    assert stored.read(stored.write(spec)).storage.md5


@pytest.mark.parametrize(
    ("source", "target", "options", "way"),
    [
        ("s3://a/x/", "s3://b/x/", {}, "copy"),
        ("s3://a/x/", "s3://b/x/", {"source_profile": "vendor"}, "copy"),
        ("s3://a/x/", "s3://b/x/", {"source_endpoint_url": "https://one.example.org"}, "stream"),
        ("s3://a/x/", "new", {}, "stream"),
        ("run", "s3://b/x/", {}, "stream"),
    ],
)
def test_bytes_pass_through_us_only_where_no_storage_can_copy_them(
    here: Path, source: str, target: str, options: dict[str, Any], way: str
) -> None:
    spec = build_spec(source, target, allow_local=True, **options)

    assert data_path(spec) == way
    assert (streaming_reason(spec) is None) == (way == "copy")


@pytest.mark.parametrize(
    ("key", "size", "code"),
    [
        ("x/a/b.gz", 1, None),
        ("x/d/", 0, None),
        ("x/d/", 1, "FolderWithBytes"),
        ("x//b", 1, "EmptySegment"),
        ("x/a//b", 1, "EmptySegment"),
        ("x/a//", 0, "EmptySegment"),
        ("x/../b", 1, "DotSegment"),
        ("x/a/..", 1, "DotSegment"),
        ("x/./b", 1, "DotSegment"),
        ("x/a\0b", 1, "NulInKey"),
        ("x/..a/...", 1, None),
        ("x/.seqferry-" + "0" * 32 + ".part", 1, "ReservedName"),
        ("x/.seqferry-" + "0" * 31 + ".part", 1, None),
        ("x/a b/~c.d/-", 1, None),
        ("x/a\nb", 1, None),
        ("x/" + "a" * 255, 1, None),
        ("x/" + "a" * 256, 1, "NameTooLong"),
        ("x/" + "/".join(["a" * 255] * 3), 1, None),
        ("x/" + "é" * 127, 1, None),
        ("x/" + "é" * 128, 1, "NameTooLong"),
    ],
)
def test_a_key_that_cannot_be_a_file_is_refused_by_itself(here: Path, key: str, size: int, code: str | None) -> None:
    spec = build_spec("s3://b/x/", "new", allow_local=True)

    refused = decision.refusal(spec, key, target_key(spec, key), size)

    assert (refused and refused[0]) == code
    assert refused is None or f"s3://b/{key}" in refused[1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"if_exists": "maybe"}, "--if-exists"),
        ({"verify": "never"}, "--verify"),
        ({"part_size": 5 * 2**20 - 1}, "--part-size"),
        ({"part_size": 5 * 2**30 + 1}, "--part-size"),
        ({"copy_threshold": -1}, "--copy-threshold"),
        ({"copy_threshold": 5 * 2**30 + 1}, "--copy-threshold"),
        ({"endpoint_url": "127.0.0.1:9000"}, "endpoint URL"),
        ({"endpoint_url": "http://127.0.0.1:99999"}, "endpoint URL"),
        ({"endpoint_url": "http://127.0.0.1:9000?x=1"}, "endpoint URL"),
        ({"region": "eu west\n"}, "not a region"),
        ({"endpoint_url": "ftp://host"}, "endpoint URL"),
    ],
)
def test_an_option_out_of_its_range_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        build_spec("s3://a/", "s3://b/", **options)


@pytest.mark.parametrize("part_size", [5 * 2**20, 5 * 2**30])
def test_the_ends_of_the_range_of_parts_are_allowed(part_size: int) -> None:
    assert build_spec("s3://a/", "s3://b/", part_size=part_size, copy_threshold=0).parts.part_size == part_size


@pytest.mark.parametrize(
    "url",
    [
        "https://key:hunter2@s3.example.org",
        "key:hunter2@s3.example.org",
        "http://key:x/hunter2@127.0.0.1:1",
        "http://key:x?hunter2@127.0.0.1:1",
        "ftp://key:hunter2@s3.example.org",
    ],
)
@pytest.mark.parametrize("option", ["endpoint_url", "source_endpoint_url", "target_endpoint_url"])
def test_credentials_in_an_endpoint_are_refused_and_not_shown(option: str, url: str) -> None:
    options: dict[str, Any] = {option: url}

    with pytest.raises(UsageError, match="must not hold credentials") as refused:
        build_spec("s3://a/", "s3://b/", **options)

    assert "hunter2" not in refused.value.message


def test_prefixes_of_s3mirror_are_plain_strings() -> None:
    spec = build_mirror_spec("a", "run4", None, "b", "copy-")

    assert target_key(spec, "run42/f") == "copy-2/f"


def test_keys_of_s3mirror_follow_the_prefix_and_count_once() -> None:
    spec = build_mirror_spec("a", "run/", ["f", "g", "f"], "b", "")

    assert spec.keys == ("f", "g")
    assert target_key(spec, "run/f") == "f"


def test_an_empty_list_of_keys_is_refused() -> None:
    with pytest.raises(UsageError, match="list of keys is empty"):
        build_mirror_spec("a", "run/", [], "b", "")


def test_a_list_of_too_many_keys_is_refused_with_the_limit() -> None:
    build_mirror_spec("a", "run/", [f"{number}" for number in range(100_000)], "b", "")
    with pytest.raises(UsageError, match=r"100,001 keys.* 100,000 "):
        build_mirror_spec("a", "run/", [f"{number}" for number in range(100_001)], "b", "")


@pytest.mark.parametrize(
    ("source", "target", "key", "size", "left_out"),
    [
        ("s3://a/run/", "s3://b", "run/", 0, True),
        ("s3://a/run/", "s3://b", "run/", 1, False),
        ("s3://a/run/", "s3://b", "run/d/", 0, False),
        ("s3://a/run/", "s3://b/x", "run/", 0, False),
        ("s3://a/run/f", "s3://b", "run/f", 0, False),
    ],
)
def test_only_an_empty_marker_of_which_no_name_is_left_is_left_out(
    source: str, target: str, key: str, size: int, left_out: bool
) -> None:
    assert decision.is_left_out(build_spec(source, target), key, size) == left_out


@pytest.mark.parametrize(
    ("source", "target", "key", "code"),
    [
        ("s3://a/run/", "s3://b", "run/", "EmptyTargetKey"),
        ("s3://a/run/", "s3://b", "run/f", None),
        ("s3://a/run/", "s3://b/x", "run/", None),
        ("s3://a/run/", "s3://b/" + "x" * 1023, "run/", None),
        ("s3://a/run/", "s3://b/" + "x" * 1023, "run/f", "TargetKeyTooLong"),
        ("s3://a/r/", "s3://b/xx/", "r/" + "é" * 510 + "e", None),
        ("s3://a/r/", "s3://b/xx/", "r/" + "é" * 511, "TargetKeyTooLong"),
        ("s3://a/b/", "s3://a/", "b/b/y", "TargetInsideSource"),
        ("s3://a/b/", "s3://a/", "b/y", None),
        ("s3://a/b/", "s3://c/", "b/b/y", None),
    ],
)
def test_an_object_that_cannot_go_where_it_should_is_refused_by_itself(
    source: str, target: str, key: str, code: str | None
) -> None:
    spec = build_spec(source, target)

    refused = decision.refusal(spec, key, target_key(spec, key), 1)

    assert (refused and refused[0]) == code
    assert refused is None or "Choose a" in refused[1]


_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@settings(deadline=None)
@given(_KEYS, _KEYS, st.none() | st.lists(_KEYS, min_size=1, max_size=5), st.none() | st.integers(5 << 20, 5 << 30))
def test_a_spec_comes_back_from_its_text(
    source: str, target: str, keys: list[str] | None, part_size: int | None
) -> None:
    spec = build_mirror_spec("a", source, keys, "b", target)
    spec = validate_spec(TransferSpec(spec.source, spec.target, spec.strip, keys=spec.keys, parts=Parts(part_size)))

    assert stored.read(stored.write(spec)) == spec


@settings(deadline=None)
@given(_KEYS, _KEYS, _KEYS)
def test_what_follows_the_prefix_is_kept_whatever_it_is(prefix: str, rest: str, target: str) -> None:
    spec = build_mirror_spec("a", prefix, None, "b", target)

    assert target_key(spec, prefix + rest) == target + rest


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/null"])
def test_what_stands_for_a_device_or_an_open_file_is_no_target(path: str) -> None:
    with pytest.raises(UsageError, match="write - for standard output"):
        build_spec("s3://a/x", path, allow_local=True)


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    for source, target in (("s3://a/x", "file"), (".", "s3://a/")):
        with pytest.raises(UsageError, match="is not there any more"):
            build_spec(source, target, allow_local=True)
