"""Wheel and sdist as a release has them: what they hold, and that the wheel works in an empty environment."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import seqferry
from support.servers import S3Server

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "tools/release"


@pytest.fixture(scope="module")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed (Debian: openssh-client)")
    key = tmp_path_factory.mktemp("key") / "release"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", key], check=True)
    return key


@pytest.mark.long
def test_a_wheel_works_in_an_empty_environment_and_holds_what_it_must(
    seaweedfs: S3Server, make_bucket: Callable[..., str], signing_key: Path, tmp_path: Path
) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed (https://rustup.rs)")
    out = tmp_path / "dist"
    no_page = [] if (ROOT / "python/seqferry/api/page/index.html").exists() else ["--no-page"]
    environment = {
        **os.environ,
        **seaweedfs.environment(),
        "SEQFERRY_TRIAL_BUCKET": make_bucket(seaweedfs),
        "SEQFERRY_SIGNING_KEY": str(signing_key),
    }

    made = subprocess.run(
        [sys.executable, RELEASE / "dist.py", "--host", "--out", out, *no_page],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert made.returncode == 0, made.stdout + made.stderr
    assert "in an empty environment without a compiler" in made.stdout
    assert "copied to a bucket and back" in made.stdout
    [wheel] = out.glob("*.whl")
    version = subprocess.run([seqferry(), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert wheel.name.startswith(f"seqferry-{version}-cp311-abi3-")
    assert {file.name for file in out.iterdir()} >= {
        f"seqferry-{version}.tar.gz", "requirements-runtime.lock", "SHA256SUMS", "SHA256SUMS.sig",
    }  # fmt: skip
    components = json.loads((out / "seqferry-crates.cdx.json").read_text())["components"]
    assert {"tokio", "aws-lc-sys"} <= {one["name"] for one in components}
    assert_sums_are_signed(out, signing_key)
    assert_notices_name_every_crate(wheel, {f"{one['name']} {one['version']}" for one in components})


def assert_sums_are_signed(out: Path, key: Path) -> None:
    sums = (out / "SHA256SUMS").read_text()
    for line in sums.splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert sums.count("\n") == len(list(out.iterdir())) - 2, "the sums and their signature are not among them"
    signers = out.parent / "signers"
    signers.write_text(f"release {key.with_suffix('.pub').read_text()}")
    verify = [
        "ssh-keygen", "-Y", "verify", "-f", signers, "-I", "release", "-n", "seqferry-release",
        "-s", out / "SHA256SUMS.sig",
    ]  # fmt: skip
    assert subprocess.run(verify, input=sums, text=True, capture_output=True, check=False).returncode == 0
    changed = sums.replace("a", "b", 1)
    assert subprocess.run(verify, input=changed, text=True, capture_output=True, check=False).returncode != 0


def assert_notices_name_every_crate(wheel: Path, crates: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/LICENSE-THIRD-PARTY")]
        notices = archive.read(name).decode()
    ours = {crate for crate in crates if crate.startswith("seqferry")}
    named = {crate for crate in crates - ours if f"\n{crate} (" in notices}
    assert len(named) > 150
    assert "Apache License" in notices
    assert "crates/py" not in notices


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("no-prices", "lacks seqferry/model/prices.toml"),
        ("no-page", "is without the page: see what `make try-page` says"),
        ("no-notices", "lacks LICENSE-THIRD-PARTY"),
        ("no-sbom", "holds 0 bills of materials"),
        ("debug", r"the library is not stripped \(.symtab\)"),
        ("path", "the library names a path of this machine: /root/.cargo/registry/src/x/y.rs"),
        (None, None),
    ],
)
def test_a_wheel_that_lacks_something_is_refused(change: str | None, complaint: str | None, tmp_path: Path) -> None:
    sys.path.insert(0, str(RELEASE))
    try:
        checks = runpy.run_path(str(RELEASE / "checks.py"))
    finally:
        sys.path.remove(str(RELEASE))
    wheel = tmp_path / "seqferry-0-cp311-abi3-manylinux2014_x86_64.whl"
    names = sorted(checks["package_files"]())
    names = sorted({*names, checks["PAGE"]})
    licences = list(checks["LICENCES"])
    if change == "no-prices":
        names.remove("seqferry/model/prices.toml")
    if change == "no-page":
        names = [name for name in names if "/page/" not in name]
    if change == "no-notices":
        licences.remove("LICENSE-THIRD-PARTY")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        for name in licences:
            archive.writestr(f"seqferry-0.dist-info/licenses/{name}", "")
        if change != "no-sbom":
            archive.writestr("seqferry-0.dist-info/sboms/crates.json", "{}")
        archive.writestr(
            "seqferry/_native.abi3.so", library(tmp_path, is_stripped=change != "debug", path=change == "path")
        )

    if complaint is None:
        checks["check_wheel"](wheel)
    else:
        with pytest.raises(Exception, match=complaint):
            checks["check_wheel"](wheel)


def library(folder: Path, *, is_stripped: bool, path: bool) -> bytes:
    """A small shared library, as a compiler makes it."""
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed (Debian: build-essential)")
    source, made = folder / "one.c", folder / "one.so"
    text = '"/root/.cargo/registry/src/x/y.rs"' if path else '"here"'
    source.write_text(f"const char *told(void) {{ return {text}; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", *(["-s"] if is_stripped else []), "-o", made, source], check=True)
    return made.read_bytes()
