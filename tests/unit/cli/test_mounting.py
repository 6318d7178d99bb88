"""What the commands for mounts make of their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from seqferry.cli import mount_write_options, options
from seqferry.cli.app import application, run
from seqferry.cli.foreign_commands import translate
from seqferry.cli.foreign_mount_options import MEANINGS, REFUSALS, helper_arguments
from seqferry.engine import mounts
from seqferry.engine.mounts import MountEntry, MountSpec
from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location
from seqferry.settings import share_writes, shares, tables


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


_OF_MOUNT = (
    *("async", "atime", "noatime", "auto", "noauto", "comment=x", "defaults", "dev", "nodev", "diratime", "nodiratime"),
    *("dirsync", "exec", "noexec", "group", "nogroup", "iversion", "noiversion", "mand", "nomand", "_netdev", "nofail"),
    *("relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "suid", "nosuid", "silent"),
    *("loud", "owner", "noowner", "ro", "rw", "sync", "user", "user=lab", "nouser", "users", "nousers", "symfollow"),
    *("nosymfollow", "helper=seqferry", "uhelper=seqferry", "ro=recursive", "nosuid=fs", "shared", "rprivate"),
    *("unbindable", "slave=recursive", "usrquota", "grpquota", "quota", "noquota", "nobootwait"),
    *("x-systemd.automount", "x-systemd.idle-timeout=60", "x-initrd.mount", "x-gvfs-show", "X-mount.mkdir"),
    *("X-mount.mkdir=0755", "X-mount.owner=lab", "X-mount.mode=0750", "X-mount.subdir=runs", "X-mount.idmap=b:0:0:1"),
)
"""Options of mount(8) and fstab(5) for every file system, util-linux 2.40."""


@pytest.mark.parametrize("option", _OF_MOUNT)
def test_what_mount_and_fstab_know_passes(option: str) -> None:
    assert helper_arguments(["s3://b", "/mnt", "-o", f"{option},cache=/c"]) == [
        "mount",
        "--cache",
        "/c",
        "s3://b",
        "/mnt",
    ]


@pytest.mark.parametrize(
    "option",
    [
        *("remount", "bind", "rbind", "move", "loop", "loop=/dev/loop0", "offset=512", "sizelimit=1", "encryption=x"),
        *("context=u:r:t", "fscontext=u:r:t", "defcontext=u:r:t", "rootcontext=u:r:t", "verity.hashdevice=/dev/x"),
    ],
)
def test_what_cannot_be_carried_out_for_a_bucket_says_why(option: str) -> None:
    name = option.partition("=")[0]
    for sloppy in ([], ["-s"]):
        with pytest.raises(UsageError, match=f"^{name}: "):
            helper_arguments(["s3://b", "/mnt", *sloppy, "-o", option])


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (["-n", "-v", "-o", "ro"], []),
        (["-nv", "-oro,uid=5"], ["--uid", "5"]),
        (["-t", "seqferry.lab", "-o", "rw"], []),
        (["-o", "ro", "-o", "pin"], ["--pin"]),
        (["-s", "-o", "color=red,pin"], ["--pin"]),
        (
            ["-o", 'x-y="a,b",markers="Run.txt,Copy.txt",pin'],
            ["--markers", "Run.txt", "--markers", "Copy.txt", "--pin"],
        ),
    ],
)
def test_the_helper_takes_what_mount_calls_it_with(given: list[str], ours: list[str]) -> None:
    assert helper_arguments(["s3://b", "/mnt", *given]) == ["mount", *ours, "s3://b", "/mnt"]


def test_a_fake_mount_mounts_nothing_and_still_checks_its_options() -> None:
    assert helper_arguments(["s3://b", "/mnt", "-f", "-o", "ro"]) == []
    for wrong in (["-f", "-o", "color=red"], ["-N", "/proc/1/ns/mnt"], ["--bind"]):
        with pytest.raises(UsageError):
            helper_arguments(["s3://b", "/mnt", *wrong])


_KEYS = {
    "settle": "60",
    "storage_class": "STANDARD_IA",
    "sse": "aws:kms",
    "sse_kms_key_id": "alias/lab",
    "bucket_key_enabled": "",
    "acl": "bucket-owner-full-control",
    "grants": "read=id=79a5",
    "tags": "project=run42",
    "ignore": "*.tmp",
    "markers": "Run.txt",
    "upload_window": "22:00-06:00",
    "max_bandwidth": "50MB/s",
}


def test_every_key_of_a_share_that_is_written_is_an_option_of_a_mount_and_of_fstab() -> None:
    assert set(_KEYS) == set(tables.keys(share_writes.Writes)), "give each key of a share its option of mount"
    command: Any = typer.main.get_command(application(["mount"]))
    for key, value in {**_KEYS, "free_space": "1TiB"}.items():
        option = mount_write_options.option_of(key)
        words = [option, value] if value else [option]
        command.commands["mount"].make_context("mount", ["s3://b", "/mnt", "--read-write", *words])
        listed = "=".join([option.removeprefix("--").replace("-", "_"), *words[1:]])
        assert translate(["mount", "s3://b", "/mnt", "-o", listed]) == ["mount", "s3://b", "/mnt", *words]


def test_keys_of_a_share_that_is_read_are_options_of_a_mount_or_for_clients_over_nfs() -> None:
    for_clients = {"name", "clients", "squash", "anon_uid", "anon_gid"}
    others = {"source": "s3://b", "stale_after": "--metadata-ttl", "directory_mode": "--dir-mode"}
    command: Any = typer.main.get_command(application(["mount"]))
    options = {name for parameter in command.commands["mount"].params for name in parameter.opts}
    for key in tables.keys(shares.Share):
        if key not in for_clients | set(_KEYS) | {"source"}:
            assert others.get(key, mount_write_options.option_of(key)) in options, key


def test_options_of_writing_are_those_of_a_share() -> None:
    given = {
        "settle": "60s",
        "storage_class": None,
        "bucket_key_enabled": False,
        "tags": ["project=run42", "kind="],
        "ignore": [""],
        "markers": ["Run.txt", "End*"],
        "upload_window": ["22:00-06:00"],
        "max_bandwidth": 50_000_000,
    }

    written = mount_write_options.parse(given)

    assert written == share_writes.Writes(
        settle=60.0,
        tags=("project=run42", "kind="),
        ignore=(),
        markers=("Run.txt", "End*"),
        upload_window=((1320, 360),),
        max_bandwidth=50_000_000,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("settle", "soon"), ("settle", "0"), ("storage_class", "cheap"), ("ignore", ["a/b"])),
        *(
            ("sse", "rot13"),
            ("tags", ["project"]),
            ("markers", ["x" * 256]),
            ("upload_window", ["22-6"]),
            ("upload_window", [""]),
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_the_option(key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{mount_write_options.option_of(key)}: "):
        mount_write_options.parse({key: value})


@pytest.mark.parametrize("option", ["--settle", "--markers", "--max-upload-bandwidth", "--free-space"])
def test_options_of_writing_are_refused_where_nothing_is_written(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["mount", "s3://bucket", str(tmp_path), option, "10"]) == 2

    assert f"{option} is for writable mounts: add --read-write" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["50MB/s", "50MB", "50000000", "50mb/S"])
def test_a_rate_is_written_as_in_a_share(text: str) -> None:
    assert options.rate(text) == 50_000_000


PAGE = (Path(__file__).parents[3] / "docs/use/coming-from.md").read_text()


@pytest.mark.parametrize("word", [*MEANINGS, *REFUSALS])
def test_each_word_of_other_mounts_is_documented(word: str) -> None:
    assert f"`{word}`" in PAGE or f"`{word} " in PAGE


@pytest.mark.parametrize("word", sorted(REFUSALS))
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
