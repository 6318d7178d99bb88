"""Completion asks the storage and the records: prefixes, buckets and ids."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import Cli, Places

from support.proxy import Proxy, access_denied
from support.servers import S3Server


def test_prefixes_ids_and_buckets_complete(cli: Cli, places: Places) -> None:
    places.fill(["a b.txt", "lane1/x.fq", "lane2/y.fq"])

    def words(line: str, shell: str = "zsh") -> list[str]:
        ran = cli.run("completion", shell, "--line", line)
        assert ran.code == 0, ran.err
        return ran.out.splitlines()

    base = f"s3://{places.source}/run42"
    assert words(f"seqferry ls {base}/l") == [f"{base}/lane1/", f"{base}/lane2/"]
    assert words(f"seqferry cp --dry-run {base}/a") == [f"{base}/a b.txt"]
    assert words(f"seqferry cp {base}/a", "bash") == [f"{base}/a\\ b.txt"]
    assert words("seqferry ls s3://no-such-bucket-here/x") == []
    assert words("seqferry status ") == []
    # Before anything is on record the storage names its buckets.
    assert words(f"seqferry ls s3://{places.source[:-1]}") == [f"s3://{places.source}/"]
    assert f"s3://{places.target}/" in words("seqferry cp s3://a/b s3://")
    submitted = cli.run("cp", *places.uris, "--detach")
    assert submitted.code == 0, submitted.err
    transfer_id = submitted.out.strip()
    assert words(f"seqferry status {transfer_id[:5]}") == [transfer_id]
    assert f"s3://{places.source}/" in words("seqferry ls s3://")


def test_buckets_of_earlier_transfers_complete_where_none_may_be_listed(
    cli: Cli, places: Places, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    places.fill(["a"])
    assert cli.run("cp", *places.uris, "--detach").code == 0
    proxy = make_proxy(places.server)
    proxy.rule("ListBuckets", access_denied())
    cli.server = proxy.server

    ran = cli.run("completion", "zsh", "--line", "seqferry ls s3://")

    assert ran.code == 0, ran.err
    assert set(ran.out.splitlines()) == {f"s3://{places.source}/", f"s3://{places.target}/"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_what_follows_a_colon(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "script"
    printed = cli.run("completion", "bash")
    assert printed.code == 0, printed.err
    assert printed.out, printed.err
    script.write_text(printed.out)
    typed = "seqferry cp s3://b"
    commands = f"""
        seqferry() {{ printf 's3://bucket/\\n'; }}
        . {script}
        COMP_LINE='{typed}' COMP_POINT={len(typed)}
        _seqferry
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    found = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True)
    assert found.stdout == "//bucket/\n"
