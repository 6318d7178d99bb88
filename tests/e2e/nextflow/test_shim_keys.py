"""Keys and paths as ``aws s3`` and s5cmd take them: the AWS CLI has no wildcards, s5cmd has ``*`` and ``?``.

What arrives was found with the AWS CLI 1.46 and s5cmd 2.3.0 on the same objects and files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import seqferry
from support.servers import S3Server

_KEYS = ["H*1.fa", "H01.fa", "d/a1/x.gz", "d/a2/y.txt", "d/a2/z/x.gz", "q?", "qa", "[ab]", "a", "st**r", r"b\s", "p*/x"]
_FILES = ["one", "st*r", "star", "[x]", "x", "dir/a.gz", "dir/sub/c.gz"]


@pytest.mark.parametrize(
    ("line", "arrived"),
    [
        # The AWS CLI: every character of a key and of a path is meant.
        ("aws s3 cp s3://SRC/H*1.fa OUT/ref.fa", {"ref.fa": "H*1.fa"}),
        ("aws s3 cp s3://SRC/H*1.fa s3://DST/x/", {"x/H*1.fa": "H*1.fa"}),
        ("aws s3 cp s3://SRC/H*1.fa s3://DST/y*", {"y*": "H*1.fa"}),
        ("aws s3 cp s3://SRC/q? OUT/", {"q?": "q?"}),
        ("aws s3 cp s3://SRC/[ab] OUT/", {"[ab]": "[ab]"}),
        ("aws s3 cp s3://SRC/st**r OUT/", {"st**r": "st**r"}),
        (r"aws s3 cp s3://SRC/b\s OUT/", {r"b\s": r"b\s"}),
        ("aws s3 cp --recursive s3://SRC/p* OUT/", {"x": "p*/x"}),
        ("aws s3 cp --recursive s3://SRC/p* s3://DST/z*", {"z*/x": "p*/x"}),
        ("aws s3 cp s3://SRC/d/* OUT/", 1),
        ("aws s3 cp st*r s3://DST/", {"st*r": "st*r"}),
        # s5cmd: * crosses slashes, and names go on from the last slash before the first wildcard.
        ("s5cmd cp s3://SRC/H*1.fa OUT/ref.fa", {"ref.fa/H*1.fa": "H*1.fa", "ref.fa/H01.fa": "H01.fa"}),
        ("s5cmd cp --raw s3://SRC/H*1.fa OUT/ref.fa", {"ref.fa": "H*1.fa"}),
        ("s5cmd cp --raw s3://SRC/p*/x s3://DST/", {"x": "p*/x"}),
        ("s5cmd cp s3://SRC/H*1.fa s3://DST/ref.fa", 1),
        ("s5cmd cp s3://SRC/a s3://DST/x*", 1),
        ("s5cmd cp s3://SRC/d/a*/*.gz OUT/", {"a1/x.gz": "d/a1/x.gz", "a2/z/x.gz": "d/a2/z/x.gz"}),
        ("s5cmd cp s3://SRC/d/a?/*.gz s3://DST/", {"a1/x.gz": "d/a1/x.gz", "a2/z/x.gz": "d/a2/z/x.gz"}),
        ("s5cmd cp s3://SRC/q? OUT/", {"q?": "q?", "qa": "qa"}),
        ("s5cmd cp s3://SRC/[ab] OUT/", {"[ab]": "[ab]"}),
        ("s5cmd cp s3://SRC/d/ OUT/", 1),
        ("s5cmd cp s3://SRC OUT/", 1),
        ("s5cmd cp s3://SRC/none* OUT/", 1),
        ("s5cmd cp st*r s3://DST/u/", {"u/st*r": "st*r", "u/star": "star"}),
        ("s5cmd cp --raw st*r s3://DST/u/", {"u/st*r": "st*r"}),
        (r"s5cmd cp st\**r s3://DST/u/", {"u/st*r": "st*r"}),
        ("s5cmd cp [x] s3://DST/u/", {"u/[x]": "[x]"}),
        ("s5cmd cp *[x] s3://DST/u/", {"u/x": "x"}),
        ("s5cmd cp dir s3://DST/u/", {"u/dir/a.gz": "dir/a.gz", "u/dir/sub/c.gz": "dir/sub/c.gz"}),
        ("s5cmd cp dir/ s3://DST/u/", {"u/a.gz": "dir/a.gz", "u/sub/c.gz": "dir/sub/c.gz"}),
        ("s5cmd cp dir/* s3://DST/u/", {"u/a.gz": "dir/a.gz", "u/sub/c.gz": "dir/sub/c.gz"}),
        ("s5cmd cp dir s3://DST/u", 1),
        ("s5cmd cp dir/* s3://DST/u", 1),
    ],
)
def test_keys_are_taken_as_the_original_takes_them(
    line: str, arrived: dict[str, str] | int, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    source, target = _filled(versitygw, make_bucket), make_bucket(versitygw)
    for name in _FILES:
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(name)
    (tmp_path / "out").mkdir()
    words = [word.replace("SRC", source).replace("DST", target).replace("OUT", "../out") for word in line.split()]

    done = _run(versitygw, tmp_path / "work", *words)

    client = versitygw.client(versitygw.user)
    stored = [one["Key"] for one in client.list_objects_v2(Bucket=target).get("Contents", ())]
    found = {key: client.get_object(Bucket=target, Key=key)["Body"].read().decode() for key in stored}
    written = (path for path in (tmp_path / "out").rglob("*") if path.is_file())
    found |= {str(path.relative_to(tmp_path / "out")): path.read_text() for path in written}
    nothing: dict[str, str] = {}
    expected = (arrived, nothing) if isinstance(arrived, int) else (0, arrived)
    assert (done.returncode, found) == expected, done.stderr


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("aws s3 ls s3://SRC/p*", ["p*/"]),
        ("aws s3 ls s3://SRC/q?", ["q?"]),
        ("s5cmd ls s3://SRC/d/*.gz", ["a1/x.gz", "a2/z/x.gz"]),
        ("s5cmd ls s3://SRC/q?", ["q?", "qa"]),
        ("s5cmd ls s3://SRC/[ab]", ["[ab]"]),
        ("s5cmd ls s3://SRC/d/", ["a1/", "a2/"]),
        ("s5cmd ls s3://SRC/none*", None),
    ],
)
def test_listings_take_keys_alike(
    line: str, shown: list[str] | None, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    source = _filled(versitygw, make_bucket)

    done = _run(versitygw, tmp_path, *line.replace("SRC", source).split())

    assert done.returncode == (1 if shown is None else 0), done.stderr
    assert sorted(row.split()[-1] for row in done.stdout.splitlines()) == (shown or [])


def _filled(server: S3Server, make_bucket: Callable[..., str]) -> str:
    bucket = make_bucket(server)
    for key in _KEYS:
        server.client(server.user).put_object(Bucket=bucket, Key=key, Body=key.encode())
    return bucket


def _run(server: S3Server, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), **server.environment()}
    return subprocess.run(
        [seqferry(), *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
