"""Builds what a release consists of into a folder, checks it, and tests it in an empty environment.

    dist.py                 wheels for each platform that the Rust toolchain can build for, sdist, bills of materials,
                            requirements-runtime.lock, SHA256SUMS, and SHA256SUMS.sig when SEQFERRY_SIGNING_KEY names
                            an SSH key
    dist.py --host          one wheel for this machine, with its own linker and the packages of this environment

Run by ``make dist`` with the tools of ``requirements.lock`` beside this file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import checks
import notices
import try_wheel
import wheel_paths

ROOT: Final = Path(__file__).parents[2]
SUMS: Final = "SHA256SUMS"
NAMESPACE: Final = "seqferry-release"
"""What a signature is for, so that one made for something else is not taken for a release's."""

EPOCH_WITHOUT_GIT: Final = 315532800
"""1980: the first year that a zip archive can hold."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A Rust target, the tag that wheels for it have, and Debian's name of the architecture if Debian builds for it."""

    target: str
    compatibility: str
    debian: str | None

    @property
    def standard_library(self) -> str:
        """Commands that install the standard library of Rust for it."""
        rustup = f"rustup target add {self.target}"
        return f"{rustup}; without rustup, Debian's libstd-rust-web-dev:{self.debian}" if self.debian else rustup


PLATFORMS: Final = (
    Platform("x86_64-unknown-linux-gnu", "manylinux2014", "amd64"),
    Platform("aarch64-unknown-linux-gnu", "manylinux2014", "arm64"),
    Platform("x86_64-unknown-linux-musl", "musllinux_1_2", None),
)


def say(text: str) -> None:
    print(f"dist: {text}", flush=True)


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """Standard output of a command in the root of the repository.

    Raises:
        subprocess.CalledProcessError: it has failed.
    """
    ran = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return ran.stdout


def source_date() -> str:
    """Time of the commit: what is built twice from it is the same twice."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    git = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return git.stdout.strip() or str(EPOCH_WITHOUT_GIT)


def has_standard_library(target: str) -> bool:
    rustlib = Path(run("rustc", "--print", "sysroot").strip()) / "lib/rustlib"
    return any((rustlib / target / "lib").glob("libstd-*"))


def build_environment(target_folder: Path | None) -> dict[str, str]:
    """Variables of a build: those of ``make build``, or for a folder of its own those of a repeatable one."""
    environment = {**os.environ}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    if target_folder is not None:
        # Paths of this machine stay out of the library. Everything is compiled anew: hence a folder of its own.
        cargo_home = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
        flags = f"--remap-path-prefix={cargo_home}/registry/src=/crates"  # those of ours are relative
        environment["RUSTFLAGS"] = f"{environment.get('RUSTFLAGS', '')} {flags}".strip()
        environment["CARGO_TARGET_DIR"] = str(target_folder)
        environment["SOURCE_DATE_EPOCH"] = source_date()  # a change of it compiles the cryptography anew
    return environment


def build(out: Path, arguments: Sequence[str], environment: dict[str, str]) -> Path:
    """The wheel that maturin makes."""
    before = set(out.glob("*.whl"))
    maturin = Path(sys.executable).with_name("maturin")
    run(
        maturin,
        "build",
        "--release",
        "--locked",
        "--strip",
        "--quiet",
        "--out",
        out,
        *arguments,
        environment=environment,
    )
    [wheel] = set(out.glob("*.whl")) - before
    return wheel


def build_wheels(out: Path, platforms: Sequence[Platform]) -> list[Path]:
    """One wheel for each platform; those that the toolchain cannot build for are named and left out."""
    wheels: list[Path] = []
    for platform in platforms:
        if not has_standard_library(platform.target):
            say(
                f"left out: {platform.target}; this Rust toolchain has no standard library for it "
                f"({platform.standard_library})"
            )
            continue
        begun = time.monotonic()
        wheel = build(
            out,
            ["--zig", "--target", platform.target, "--compatibility", platform.compatibility],
            build_environment(ROOT / "target/dist"),
        )
        say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB in {time.monotonic() - begun:.0f} s")
        wheels.append(wheel)
    return wheels


def build_sdist(out: Path) -> Path:
    maturin = Path(sys.executable).with_name("maturin")
    run(maturin, "sdist", "--out", out, environment={**os.environ, "SOURCE_DATE_EPOCH": source_date()})
    [sdist] = out.glob("*.tar.gz")
    return sdist


def write_sums(out: Path) -> Path:
    """Sums of all files of the folder, as ``sha256sum --check`` reads them."""
    files = sorted(file for file in out.iterdir() if file.is_file() and not file.name.startswith(SUMS))
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    sums = out / SUMS
    sums.write_text("".join(lines))
    return sums


def sign(sums: Path, key: str) -> None:
    """Sign the sums with an SSH key, and check that the signature is one of them."""
    signature = sums.with_name(f"{SUMS}.sig")
    run("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, sums)
    with sums.open() as signed:
        subprocess.run(
            ["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", signature],
            stdin=signed,
            stdout=subprocess.DEVNULL,
            check=True,
        )
    say(f"{signature.name}: signed")


def seal(out: Path) -> None:
    """Write the sums, and sign them with the key that a variable names. A signature of other sums does not stay."""
    sums = write_sums(out)
    sums.with_name(f"{SUMS}.sig").unlink(missing_ok=True)
    if key := os.environ.get("SEQFERRY_SIGNING_KEY"):
        sign(sums, key)
    else:
        say("not signed: SEQFERRY_SIGNING_KEY names no SSH key")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build what a release consists of.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist/release", help="folder; it is emptied first")
    parser.add_argument("--host", action="store_true", help="one wheel for this machine, with its own linker")
    parser.add_argument("--target", action="append", help="only this Rust target")
    parser.add_argument("--no-try", action="store_true", help="do not install and start the wheel")
    parser.add_argument("--no-page", action="store_true", help="accept wheels without the page")
    given = parser.parse_args()
    platforms = [one for one in PLATFORMS if not given.target or one.target in given.target]
    if given.target and len(platforms) < len(set(given.target)):
        parser.error(f"--target is one of {', '.join(one.target for one in PLATFORMS)}")
    out = given.out.resolve()
    try:
        make(out, platforms, host=given.host, with_trial=not given.no_try, page=not given.no_page)
    except (subprocess.CalledProcessError, notices.NoticesError, checks.CheckError, try_wheel.TrialError) as why:
        print(f"dist: failed: {why}", file=sys.stderr)
        return 1
    return 0


def make(out: Path, platforms: Sequence[Platform], *, host: bool, with_trial: bool, page: bool) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    crates, packages = notices.write()
    if page and not packages:
        raise notices.NoticesError("The licences of the page's packages are in web/node_modules, which is missing.")
    say(f"{notices.NOTICES.name}: notices of {crates} crates and {packages} npm packages")
    wheels = [build(out, [], build_environment(None))] if host else build_wheels(out, platforms)
    sdist = build_sdist(out)
    for wheel in wheels:
        wheel_paths.remove_root(wheel, ROOT)
        checks.check_wheel(wheel, page=page)
    checks.check_sdist(sdist)
    if not host:
        checks.run_tools([*wheels, sdist], say)
    own = [wheel for wheel in wheels if os.uname().machine in wheel.name and "musllinux" not in wheel.name]
    if own:
        (out / "seqferry-crates.cdx.json").write_bytes(checks.crates_sbom(own[0]))
    if own and with_trial:
        has_cyclonedx = Path(sys.executable).with_name("cyclonedx-py").exists()
        sbom = out / "seqferry-python.cdx.json" if has_cyclonedx else None
        try_wheel.try_wheel(own[0], say, sbom=sbom, demo=not host)
    shutil.copyfile(try_wheel.RUNTIME_LOCK, out / try_wheel.RUNTIME_LOCK.name)  # those who install need no clone
    seal(out)
    say(f"{len(list(out.iterdir()))} files in {out}")


if __name__ == "__main__":
    sys.exit(main())
