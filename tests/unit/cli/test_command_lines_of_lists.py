"""Lists of commands that are refused, each by its line, before anything is asked of a storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.cli.app import run


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["cp SRCa DSTa", "cp 'SRCb DSTb"], "line 2"),
        (["cp SRCa DSTa", "ls SRC"], "line 2: 'ls' is not allowed in a list"),
        (["cp SRCa DSTa", "cp SRCb DSTa"], "lines 1 and 2 both change"),
        (["cp SRCa DSTa --nonsense"], "line 1: No such option: --nonsense"),
        (["cp SRCa DSTa --backup-dir x"], "line 1: --backup-dir:"),
        (["cp SRCa SRCc --dry-run"], "line 1: No such option: --dry-run"),
        (["rm SRC"], "line 1: "),
        (["mv SRCa SRCn", "mv SRCb SRCa"], "line 2 writes s3://"),
        (["cp SRCa DSTa", "rm SRCa"], "line 2 removes s3://"),
        (["cp SRCa DSTa", "cp SRCb SRCb"], "line 2: Source and target are the same"),
        (["# nothing"], "holds no command"),
    ],
)
def test_a_malformed_list_is_refused_by_its_line(
    lines: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    path = tmp_path / "commands"
    path.write_text("".join(line.replace("SRC", "s3://b/run/").replace("DST", "s3://c/in/") + "\n" for line in lines))

    assert run(["run", str(path)]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
