"""The build of the page: the one that is served is replaced whole, or stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.run import ROOT

WEB = ROOT / "web"


def _build(web: Path) -> subprocess.CompletedProcess[str]:
    node = subprocess.run([ROOT / "tools" / "node", ROOT / ".venv"], capture_output=True, text=True, check=True)
    environment = {**os.environ, "PATH": f"{node.stdout.strip()}:{os.environ['PATH']}"}
    command = ["npm", "--prefix", web, "run", "build"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(not (WEB / "node_modules" / ".stamp").exists(), reason="the packages of the page are not installed")
def test_a_page_that_is_served_stays_until_another_is_built_whole(tmp_path: Path) -> None:
    web, served = tmp_path / "web", tmp_path / "python" / "seqferry" / "api" / "page"
    shutil.copytree(WEB, web, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (web / "node_modules").symlink_to(WEB / "node_modules")
    (served / "assets").mkdir(parents=True)
    (served / "index.html").write_text("the old page")
    (served / "assets" / "index-old.js").write_text("old")
    main = web / "src" / "main.ts"
    whole = main.read_text()

    main.write_text("const broken: = 1\n")
    assert _build(web).returncode != 0
    assert sorted(one.name for one in served.rglob("*")) == ["assets", "index-old.js", "index.html"]
    assert (served / "index.html").read_text() == "the old page"

    main.write_text(whole)
    built = _build(web)
    assert built.returncode == 0, built.stderr
    index = (served / "index.html").read_text()
    assets = [one.name for one in (served / "assets").iterdir()]
    assert "index-old.js" not in assets
    assert [name for name in assets if name.endswith(".js") and name in index], (assets, index)
    assert {"icon.svg", "licenses.md", "index.html.br", "index.html.gz"} <= {one.name for one in served.iterdir()}
    assert list((web / "dist").iterdir()) == []
