"""Completion asks the storage and the records: prefixes, buckets of earlier transfers, and ids."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_process import Cli, Places


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
    submitted = cli.run("cp", *places.uris, "--detach")
    assert submitted.code == 0, submitted.err
    transfer_id = submitted.out.strip()
    assert words(f"seqferry status {transfer_id[:5]}") == [transfer_id]
    assert f"s3://{places.source}/" in words("seqferry ls s3://")


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
