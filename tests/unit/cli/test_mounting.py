"""What the commands for mounts make of their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.cli.fingers import translate
from seqferry.cli.mount_words import ANSWERS, MEANINGS, helper_arguments
from seqferry.engine import mounts
from seqferry.engine.mounts import MountEntry, MountSpec
from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60.0), ("0.5", 0.5), ("90s", 90.0), ("minimal", 0.0), (" Indefinite ", None)]
)
def test_lifetimes_are_seconds_or_words(text: str, seconds: float | None) -> None:
    assert mounts.parse_lifetime(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "soon", "nan", "1e12"])
def test_what_is_no_lifetime_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--metadata-ttl"):
        mounts.parse_lifetime(text)


def test_modes_are_octal() -> None:
    assert mounts.parse_mode("0750") == 0o750
    for wrong in ("", "9", "01777", "rwx"):
        with pytest.raises(UsageError, match="octal"):
            mounts.parse_mode(wrong)


@pytest.mark.parametrize(
    ("memory", "cache", "said"), [(0, None, "--memory"), (1 << 20, None, "16MiB"), (None, 0, "--max-cache-size")]
)
def test_sizes_that_are_too_small_to_work_with_are_refused(memory: int | None, cache: int | None, said: str) -> None:
    mounts.check_sizes(None, None)
    mounts.check_sizes(16 << 20, 1 << 20)
    with pytest.raises(UsageError, match=said):
        mounts.check_sizes(memory, cache)


def test_a_prefix_ends_in_a_slash() -> None:
    for key, prefix in (("", ""), ("a", "a/"), ("a/b/", "a/b/")):
        spec = MountSpec(place=S3Location("bucket", key), directory=Path("/mnt"))
        assert spec.prefix == prefix


def test_the_words_of_fstab_become_options() -> None:
    given = ["s3://b/p", "/mnt", "-s", "-o", "rw,noauto,x-systemd.automount,allow_other,metadata-ttl=5,cache=/c"]
    wanted = ["mount", "--allow-other", "--metadata-ttl", "5", "--cache", "/c", "s3://b/p", "/mnt"]
    assert helper_arguments(given) == wanted
    for wrong in (["s3://b"], ["s3://b", "/mnt", "-o", "uid"], ["s3://b", "/mnt", "-o", "color=red"]):
        with pytest.raises(UsageError):
            helper_arguments(wrong)


PAGE = (Path(__file__).parents[3] / "docs/use/coming-from.md").read_text()


@pytest.mark.parametrize("word", [*MEANINGS, *ANSWERS])
def test_each_word_of_other_mounts_is_documented(word: str) -> None:
    assert f"`{word}`" in PAGE or f"`{word} " in PAGE


@pytest.mark.parametrize("word", sorted(ANSWERS))
def test_what_a_mount_has_no_equal_for_is_answered_by_name(word: str) -> None:
    with pytest.raises(UsageError, match=rf"^{word}: "):
        translate(["mount", "bucket", "/mnt", word, "x"])


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        (
            "--endpoint-url U --region us-east-1 --force-path-style bench ./m --read-only --cache ./t --max-threads 8",
            "--endpoint-url U --region us-east-1 bench ./m --read-only --cache ./t",
        ),
        ("b /m --max-threads=8 --maximum-throughput-gbps=10 -f", "b /m -f"),
        ("b /m --max-cache-size 1024 --requester-pays", "b /m --max-cache-size 1024MiB --request-payer requester"),
        ("b /m --max-cache-size=2097152", "b /m --max-cache-size 2097152"),
        ("b /m --max-cache-size 10GiB", "b /m --max-cache-size 10GiB"),
        (
            "b /m --daemon --vfs-cache-mode full --vfs-cache-max-size 10G --dir-cache-time 1h30m --cache-dir /c",
            "b /m --max-cache-size 10GiB --metadata-ttl 5400 --cache /c",
        ),
        ("b /m -o ro,allow_other,metadata-ttl=5", "b /m --allow-other --metadata-ttl 5"),
        ("b /m -oro,url=http://h,use_path_request_style", "b /m --endpoint-url http://h"),
        ("s3://b /m --file-mode 0555 -- ", "s3://b /m --file-mode 0555 --"),
        # of the page of s3fs
        (
            "b /m -o passwd_file=/home/a/.passwd-s3fs -o umask=0022 -o url=https://h/ -o use_path_request_style -o ro",
            "b /m --passwd-file /home/a/.passwd-s3fs --file-mode 0644 --dir-mode 0755 --endpoint-url https://h/",
        ),
        ("b /m -o _netdev,allow_other,uid=5,gid=6,umask=077", "b /m --allow-other --uid 5 --gid 6 {private}"),
        ("b /m -o iam_role=auto,parallel_count=9,stat_cache_expire=30 -f", "b /m --metadata-ttl 30 -f"),
        ("b /m -o public_bucket=1,public_bucket=0", "b /m --no-sign-request"),
        ("b /m --umask 002 --allow-other", "b /m --file-mode 0664 --dir-mode 0775 --allow-other"),
    ],
)
def test_lines_of_other_mounts_mean_the_same(typed: str, ours: str) -> None:
    ours = ours.replace("{private}", "--file-mode 0600 --dir-mode 0700")
    assert translate(["mount", *typed.split()]) == ["mount", *ours.split()]
    assert translate(["mount-s3", *typed.split()]) == ["mount", *ours.split()]


@pytest.mark.parametrize("option", ["umask=9", "umask=", "umask=1777", "umask=u=rwx"])
def test_what_is_no_umask_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match="umask"):
        translate(["mount", "bucket", "/mnt", "-o", option])


@pytest.mark.parametrize(
    "option", ["use_sse=1", "no_check_certificate", "dbglevel=info", "mp_umask=0077", "logfile=/l", "ensure_diskfree=9"]
)
def test_what_has_no_equal_in_a_list_is_answered_by_name(option: str) -> None:
    with pytest.raises(UsageError, match=f"^{option.partition('=')[0]}: "):
        translate(["mount", "bucket", "/mnt", "-o", f"ro,{option}"])


@pytest.mark.parametrize(
    ("text", "prefix", "uri"),
    [
        ("bucket", None, "s3://bucket"),
        ("bucket/p/q", None, "s3://bucket/p/q"),
        ("s3://bucket", "p/", "s3://bucket/p/"),
        ("bucket", "p", "s3://bucket/p"),
        ("s3://bucket/p/", "/q/", "s3://bucket/p/q/"),
        ("Old_Bucket.x", None, "s3://Old_Bucket.x"),
    ],
)
def test_a_bucket_needs_no_scheme(text: str, prefix: str | None, uri: str) -> None:
    assert mounts.uri_of(text, prefix) == uri


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("remote:bucket/p", "s3://bucket/p or s3://remote/bucket/p"),
        ("bucket:", "s3://bucket."),
        ("./folder", "names no bucket"),
        ("/folder", "names no bucket"),
        ("", "names no bucket"),
    ],
)
def test_what_may_mean_another_bucket_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mounts.uri_of(text)


def test_the_share_of_hits_is_of_all_blocks() -> None:
    assert MountEntry("/m", "s3://b", {"block_hits": 3, "block_misses": 1}).hit_rate == 0.75
    assert MountEntry("/m", "s3://b", {"block_hits": 0, "block_misses": 0}).hit_rate is None
    assert MountEntry("/m", "s3://b", None).hit_rate is None
