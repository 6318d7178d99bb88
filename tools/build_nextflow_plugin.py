"""Builds dist/nf-seqferry-VERSION.zip, the plugin for Nextflow, against one that `make nextflow-tools` has fetched.

Usage: build_nextflow_plugin.py NEXTFLOW_LIB. The zip holds our classes alone; the same sources give the same zip. A
copy of it lies in the Python package, for wheels.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "integrations" / "nextflow" / "nf-seqferry" / "src" / "main" / "java"
IN_WHEEL = ROOT / "python" / "seqferry" / "nextflow" / "nf-seqferry.zip"
WORK = ROOT / "target" / "nf-seqferry"
OLDEST = "24.10.0"


def main() -> None:
    lib = Path(sys.argv[1]).absolute()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    classes = WORK / "classes"
    shutil.rmtree(WORK, ignore_errors=True)
    classes.mkdir(parents=True)
    sources = sorted(str(path) for path in SOURCES.rglob("*.java"))
    # Without -proc:none pf4j's annotation processor writes an empty list of extensions.
    options = ["-proc:none", "--release", "17", "-Xlint:all,-classfile,-path", "-Werror", "-encoding", "UTF-8"]
    subprocess.run(["javac", *options, "-cp", f"{lib}/*", "-d", classes, *sources], check=True)
    information = classes / "META-INF"
    information.mkdir()
    (information / "MANIFEST.MF").write_text(
        "Manifest-Version: 1.0\n"
        "Plugin-Id: nf-seqferry\n"
        f"Plugin-Version: {version}\n"
        "Plugin-Class: seqferry.nextflow.SeqferryPlugin\n"
        "Plugin-Provider: Seqferry\n"
        f"Plugin-Requires: >={OLDEST}\n"
    )
    (information / "extensions.idx").write_text("seqferry.nextflow.SeqferryPathFactory\n")
    target = ROOT / "dist" / f"nf-seqferry-{version}.zip"
    target.parent.mkdir(exist_ok=True)
    made = target.with_suffix(".new")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        files = sorted(path for path in classes.rglob("*") if path.is_file())
        for path in [*files, ROOT / "LICENSE"]:
            base = WORK if path.is_relative_to(WORK) else ROOT
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(base))), path.read_bytes(), zipfile.ZIP_DEFLATED)
    made.rename(target)
    shutil.copyfile(target, IN_WHEEL)
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
