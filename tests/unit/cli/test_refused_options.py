"""Options and places that cannot be obeyed: one line that says why, exit code 2, and nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.cli.app import run

COPY = ("cp", "s3://a/b/", "s3://c/d/")
PACK = ("pack", "s3://b/run/", "s3://b/x.tar")
UNPACK = ("unpack", "s3://b/x.tar", "s3://b/out/")
MOUNT = ("mount", "s3://b", "{t}/folder", "--read-write")
LOCK = (*COPY, "--object-lock-mode", "GOVERNANCE")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*COPY, "--sse", "aws"), "aws:kms:dsse"),
        ((*COPY, "--sse", "AES-256"), "aws:kms:dsse"),
        ((*COPY, "--sse=aws"), "aws:kms:dsse"),
        ((*COPY, "--sse-kms-key-id", "k"), "--sse aws:kms"),
        ((*COPY, "--acl", "everyone"), "choose one of private"),
        ((*COPY, "--acl", "private", "--grants", "read=id=1"), "cannot be combined"),
        ((*COPY, "--grants", "read"), "PERMISSION=KIND=GRANTEE"),
        ((*COPY, "--metadata", "a"), "has no value"),
        ((*COPY, "--metadata", "a=1,a=2"), "names 'a' twice"),
        ((*COPY, "--metadata", "a=\u00fc"), "printable ASCII"),
        ((*COPY, "--metadata", "{"), "JSON"),
        ((*COPY, "--content-type", "a\nb"), "printable ASCII"),
        ((*COPY, "--tags", ",".join(f"t{n}=1" for n in range(11))), "11 tags"),
        (LOCK, "belong together"),
        ((*LOCK, "--object-lock-until", "2001-01-01"), "has passed"),
        ((*LOCK, "--object-lock-until", "soon"), "is not a time"),
        ((*COPY, "--days", "3"), "give --restore"),
        (("mv", *COPY[1:], "--version-id", "v"), "mv removes what it has copied"),
        (("mv", *COPY[1:], "--all-versions"), "mv removes what it has copied"),
        (("sync", *COPY[1:], "--all-versions"), "sync takes current versions"),
        *((("check", *COPY[1:], *words), "check writes nothing") for words in (("-n",), ("--part-size", "8"))),
        (("cp", "s3://a/b/", "{t}/folder", "--backup-dir", "x"), "a file on a disk is gone"),
        ((*COPY, "--restore", "--tier", "Fast"), "Expedited"),
        (("cp", "{t}/folder/", "s3://c/d/", "--settle", "soon"), "--settle 'soon' is not an age"),
        (("pack", "s3://b/run/", "s3://b/out/"), "names no archive"),
        (("pack", "s3://b/run/", "s3://b"), "names no archive"),
        (("pack", "{t}/file", "s3://b/x.tar"), "cp copies a single file"),
        (("pack", "s3://b/run/", "{t}"), "is a folder and names no archive"),
        (("pack", "s3://b/run/", "s3://b/run/x.tar"), "would list its own output"),
        (("pack", "{t}", "{t}/x.tar"), "would lie in what is packed"),
        (("pack", "{t}/none", "{t}/x.tar"), "Cannot read"),
        ((*PACK, "--split", "10"), "makes no sense"),
        ((*PACK, "--symlinks", "keep"), "follow, skip"),
        (("unpack", "s3://b/prefix/", "{t}/to"), "takes one archive"),
        (("unpack", "{t}", "s3://b/out/"), "takes one archive"),
        ((*UNPACK, "--files-from", "{t}/none"), "Cannot read the list"),
        ((*UNPACK, "--links", "outside"), "--links"),
        ((*UNPACK, "--tolerate", "anything"), "--tolerate 'anything' is not known"),
        (MOUNT, "--read-write needs a folder"),
        ((*MOUNT, "--cache", "{t}/cache", "--pin"), "--pin is for mounts that are only read"),
        ((*MOUNT, "--cache", "{t}/cache", "--consistency", "frozen"), "--consistency frozen is for mounts"),
        ((*MOUNT, "--cache", "{t}/cache", "--no-sign-request"), "--no-sign-request is for mounts"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_with_its_reason(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "folder").mkdir()

    code = run([word.format(t=tmp_path) if word.startswith("{t}") else word for word in arguments])

    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert said in err
    assert err.startswith("seqferry: ")
    assert len(err.splitlines()) == 1, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"], "nothing was begun"
