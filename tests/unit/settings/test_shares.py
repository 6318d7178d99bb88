"""Shares in the configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.model.errors import UsageError
from seqferry.settings import tables
from seqferry.settings.config import Settings
from seqferry.settings.share_writes import Writes
from seqferry.settings.shares import Share


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return Settings.load({"SEQFERRY_CONFIG": str(path), "HOME": str(tmp_path)})


def test_a_share_has_defaults_and_each_key_is_read(tmp_path: Path) -> None:
    first, second = load(
        tmp_path,
        """
[[share]]
name = "runs"
source = "s3://bucket/runs/"

[[share]]
name = "/other"
source = "s3://bucket"
endpoint_url = "http://127.0.0.1:9000"
region = "eu-central-1"
profile = "lab"
read_only = true
clients = ["10.1.2.0/24", "fd00::1"]
squash = "all"
anon_uid = 7
anon_gid = 8
uid = 9
gid = 10
file_mode = "0440"
directory_mode = "550"
stale_after = 5
free_space = "100TiB"
""",
    ).shares
    assert (first.name, first.clients, first.squash, first.anon_uid, first.stale_after) == (
        "runs",
        (),
        "root",
        65534,
        60,
    )
    assert second.name == "other"
    assert second.clients == ("10.1.2.0/24", "fd00::1")
    assert (second.squash, second.anon_uid, second.gid) == ("all", 7, 10)
    assert (second.file_mode, second.directory_mode, second.free_space) == (0o440, 0o550, 100 << 40)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('nam = "x"', "the key 'nam' in [[share]] is not known; did you mean 'name'?"),
        ("settle = 5", "settle: this is for shares that can be written; add read_only = false"),
        ('upload_window = ["22:00-06:00"]', "this is for shares that can be written"),
        ("settled = 5", "the key 'settled' in [[share]] is not known; did you mean 'settle'?"),
        ('name = "a/b"', "'a/b' is no name of a share"),
        ('name = ".."', "'..' is no name of a share"),
        ('source = "bucket"', "'bucket' is no bucket or prefix"),
        ('source = "s3://"', "is no bucket or prefix"),
        ("read_only = 1", "write true or false"),
        ('clients = "10.0.0.1"', "name 1 to 100 addresses"),
        ("clients = []", "name 1 to 100 addresses"),
        ('clients = ["10.1.2.3/24"]', "'10.1.2.3/24' is no IP address or network"),
        ('clients = ["host"]', "'host' is no IP address"),
        ('squash = "some"', "'some' is none of root, all, none"),
        ("anon_uid = -1", "write a number from 0"),
        ("uid = true", "write a number from 0"),
        ("file_mode = 644", "write octal digits as a text"),
        ('file_mode = "0999"', "write octal digits as a text"),
        ("stale_after = -1", "write seconds"),
        ('free_space = "much"', "write a size"),
        ("free_space = 0", "write a size"),
        ("free_space = true", "write a size"),
        ("stale_after = nan", "write seconds"),
        ('stale_after = "60"', "write seconds"),
        ("writes = {}", "the key 'writes' in [[share]] is not known"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    key = line.partition(" ")[0]
    others = [other for other in ('name = "runs"', 'source = "s3://bucket"') if not other.startswith(f"{key} ")]
    with pytest.raises(UsageError) as refused:
        load(tmp_path, "\n".join(["[[share]]", *others, line]))
    assert said in refused.value.message
    assert f"line {len(others) + 2}" in refused.value.message


def test_shares_need_a_name_a_source_and_names_of_their_own(tmp_path: Path) -> None:
    for text, said in (
        ('[[share]]\nsource = "s3://b"', "a share has no name"),
        ('[[share]]\nname = "b"', "a share has no source"),
        ('[[share]]\nname = "b"\nsource = "s3://b"\n' * 2, "two shares are named 'b'"),
        ('[share]\nname = "b"', "write [[share]]"),
        ("share = 1", "write [[share]]"),
    ):
        with pytest.raises(UsageError) as refused:
            load(tmp_path, text)
        assert said in refused.value.message, text


def test_a_share_that_can_be_written_has_defaults_and_each_key_is_read(tmp_path: Path) -> None:
    plain, full = load(
        tmp_path,
        """
[[share]]
name = "runs"
source = "s3://bucket/runs/"
read_only = false

[[share]]
name = "other"
source = "s3://bucket/other/"
read_only = false
settle = 2.5
storage_class = { "*.bam" = "GLACIER_IR", "*" = "STANDARD_IA" }
sse = "aws:kms"
sse_kms_key_id = "lab"
grants = ["read=id=1"]
tags = { project = "run 42" }
ignore = ["*.tmp"]
markers = []
upload_window = ["22:00-06:00", "12:30-24:00"]
max_bandwidth = "50MB/s"
""",
    ).shares

    assert not plain.read_only
    assert _writes(plain) == Writes()
    assert _writes(full) == Writes(
        settle=2.5,
        storage_class=(("*.bam", "GLACIER_IR"), ("*", "STANDARD_IA")),
        sse="aws:kms",
        sse_kms_key_id="lab",
        grants=("read=id=1",),
        tags=("project=run 42",),
        ignore=("*.tmp",),
        markers=(),
        upload_window=((22 * 60, 6 * 60), (12 * 60 + 30, 24 * 60)),
        max_bandwidth=50_000_000,
    )


def _writes(share: Share) -> Writes:
    return Writes(**{key: getattr(share, key) for key in tables.keys(Writes)})


def test_one_storage_class_is_for_all_files(tmp_path: Path) -> None:
    [share] = load(
        tmp_path,
        '[[share]]\nname = "runs"\nsource = "s3://bucket"\nread_only = false\nstorage_class = "STANDARD_IA"\n'
        'request_payer = "requester"\n',
    ).shares

    assert share.storage_class == (("*", "STANDARD_IA"),)
    assert share.request_payer == "requester"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("settle = 0.5", "write seconds, from 1 to 86400"),
        ("settle = true", "write seconds"),
        ('settle = "5"', "write seconds"),
        ('storage_class = "glacier"', "'glacier' is no storage class"),
        ("storage_class = 1", "is no storage class"),
        ("storage_class = {}", "write a storage class, or a table"),
        ('storage_class = { "a/*" = "STANDARD" }', "'a/*' has a slash"),
        ('storage_class = { "*.bam" = "cold" }', "'cold' is no storage class"),
        ('sse = "aes"', "'aes' is none of AES256, aws:kms, aws:kms:dsse, none"),
        ("tags = { a = 1 }", "write a table of texts"),
        ("grants = []", "write a list of 1 to 100 grants"),
        ('ignore = "*.tmp"', "write a list of at most 100 patterns"),
        ('ignore = [""]', "'' is no pattern of a name"),
        ('ignore = ["tmp/*"]', "'tmp/*' has a slash"),
        ("markers = [1]", "1 is no pattern of a name"),
        (f'markers = ["{"x" * 256}"]', "is no pattern of a name"),
        ('upload_window = "22:00-06:00"', "write a list of 1 to 24 times of the day"),
        ("upload_window = []", "write a list of 1 to 24 times of the day"),
        ('upload_window = ["22-6"]', "'22-6' is no time of the day"),
        ('upload_window = ["22:00-22:00"]', "is no time of the day"),
        ('upload_window = ["22:00-24:01"]', "is no time of the day"),
        ('upload_window = ["25:00-26:00"]', "is no time of the day"),
        ('max_bandwidth = "fast"', "'fast' is not a size"),
        ("max_bandwidth = 0", "write bytes per second"),
        ("max_bandwidth = -1", "write bytes per second"),
        ("max_bandwidth = true", "write bytes per second"),
    ],
)
def test_a_wrong_value_for_writing_is_refused_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    share = ["[[share]]", 'name = "runs"', 'source = "s3://bucket"', "read_only = false", line]

    with pytest.raises(UsageError) as refused:
        load(tmp_path, "\n".join(share))

    assert said in refused.value.message
    assert "line 5" in refused.value.message


def test_keys_for_writing_are_refused_in_a_share_that_says_it_is_read_only(tmp_path: Path) -> None:
    share = '[[share]]\nname = "runs"\nsource = "s3://bucket"\nread_only = true\nmarkers = ["done.txt"]\n'

    with pytest.raises(UsageError) as refused:
        load(tmp_path, share)

    assert "add read_only = false" in refused.value.message
    assert "line 5" in refused.value.message
