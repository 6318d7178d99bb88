"""What the commands for mounts make of their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry import mounts
from seqferry.cli.mounting import helper_arguments
from seqferry.errors import UsageError
from seqferry.models import S3Location
from seqferry.mounts import MountEntry, MountSpec


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


def test_the_share_of_hits_is_of_all_blocks() -> None:
    assert MountEntry("/m", "s3://b", {"block_hits": 3, "block_misses": 1}).hit_rate == 0.75
    assert MountEntry("/m", "s3://b", {"block_hits": 0, "block_misses": 0}).hit_rate is None
    assert MountEntry("/m", "s3://b", None).hit_rate is None
