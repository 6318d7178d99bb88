"""Builds an OCI image from each wheel of ``dist/release`` without a container engine, and starts it.

    image.py               dist/release/seqferry-VERSION-linux-ARCH.oci.tar for each wheel of manylinux
    image.py --keep DIR    leaves what it makes on the way in DIR

The root is Debian's Python and the authorities' certificates, unpacked and never run, so that each architecture can be
built on any. The packages are those of ``requirements-runtime.lock``. Qemu starts an image of another architecture
where it is installed. Run by ``make image``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import dist
from image_parts import ARCHITECTURES, STATE, USER, Architecture, ImageError, run
from try_image import try_where_possible

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements-runtime.lock"
SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
"""Python of the suite."""

PACKAGES: Final = "python3,ca-certificates,base-files,libgcc-s1,libstdc++6,tzdata"
SITE: Final = f"usr/local/lib/python{PYTHON}/dist-packages"
TOOLS: Final = {"mmdebstrap": "mmdebstrap", "buildah": "buildah", "umoci": "umoci", "bwrap": "bubblewrap"}

# What scanners of images read: the packages of an unpacked root are in no list otherwise.
LIST_PACKAGES: Final = """
mkdir -p "$1/var/lib/dpkg/status.d"
for package in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb --field "$package" > "$1/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done
"""
MACHINE_DEPENDENT: Final = (
    "etc/apt", "etc/hostname", "etc/resolv.conf", "var/cache", "var/lib/apt", "var/log", "usr/share/doc-base",
    "usr/share/man", "usr/share/info", "usr/share/lintian",
)  # fmt: skip
"""What a root has of the machine that makes it, or nothing reads. Licences in usr/share/doc stay."""

COMMAND: Final = """\
#!/usr/bin/python3
import sys

from seqferry.cli import main

sys.exit(main())
"""


def make_root(architecture: Architecture, root: Path) -> None:
    """Unpack Debian's packages, from where this machine has them from."""
    run(
        "mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture.debian}",
        f"--include={PACKAGES}", f"--extract-hook={LIST_PACKAGES}", SUITE, root,
        environment={"SOURCE_DATE_EPOCH": dist.source_date()},
    )  # fmt: skip
    for name in MACHINE_DEPENDENT:
        place = root / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(file.read_text() for file in authorities))
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/sbin/nologin\nseqferry:x:{USER}:{USER}:Seqferry:/{STATE}:/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nseqferry:x:{USER}:\n")
    (root / "tmp").chmod(0o1777)
    state = root / STATE
    state.mkdir(mode=0o700)
    os.chown(state, USER, USER)


def install(architecture: Architecture, wheel: Path, root: Path) -> None:
    """Put the wheel and what it needs where Debian's Python looks for them."""
    site = root / SITE
    pip = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--target",
        site, "--only-binary", ":all:", "--python-version", PYTHON,
        *(f"--platform={tag}_{architecture.machine}" for tag in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")),
    ]  # fmt: skip
    run(*pip, "--require-hashes", "--requirement", LOCK)
    run(*pip, "--no-deps", "--no-index", "--upgrade", wheel)
    shutil.rmtree(site / "bin")
    if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):  # else they are compiled at each start
        run(sys.executable, "-m", "compileall", "-q", "-s", root, "--invalidation-mode", "unchecked-hash", site)
    command = root / "usr/local/bin/seqferry"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(COMMAND)
    command.chmod(0o755)


def commit(architecture: Architecture, version: str, root: Path, layout: Path) -> None:
    """Make an image of a root, in a folder of the OCI layout. The same root gives the same image."""
    buildah = (
        "buildah",
        "--storage-driver",
        "vfs",
        "--root",
        layout.parent / "store",
        "--runroot",
        layout.parent / "run",
    )
    container = run(*buildah, "from", "--arch", architecture.debian, "scratch").strip()
    run(*buildah, "add", "--quiet", container, root, "/")
    run(
        *buildah, "config", "--arch", architecture.debian, "--os", "linux", "--user", f"{USER}:{USER}",
        "--entrypoint", '["/usr/local/bin/seqferry"]', "--cmd", "--help", "--port", "8080", "--volume", f"/{STATE}",
        "--workingdir", f"/{STATE}", "--stop-signal", "SIGTERM",
        "--env", f"SEQFERRY_STATE_DIR=/{STATE}", "--env", f"HOME=/{STATE}", "--env", "LANG=C.UTF-8",
        "--env", "PATH=/usr/local/bin:/usr/bin:/bin",
        "--label", "org.opencontainers.image.title=seqferry",
        "--label", f"org.opencontainers.image.version={version}",
        "--label", "org.opencontainers.image.licenses=Apache-2.0",
        container,
    )  # fmt: skip
    run(
        *buildah,
        "commit",
        "--quiet",
        "--disable-compression=false",
        "--timestamp",
        dist.source_date(),
        container,
        f"oci:{layout}:{version}",
    )
    run(*buildah, "rm", container)


def archive(layout: Path, target: Path) -> None:
    """One file of the layout, the same for the same image."""
    run(
        "tar", "--create", "--file", target, "--sort=name", f"--mtime=@{dist.source_date()}", "--owner=0", "--group=0",
        "--numeric-owner", "--mode=u=rwX,go=rX", "--directory", layout, ".",
    )  # fmt: skip


def build_image(architecture: Architecture, wheel: Path, work: Path, out: Path) -> Path:
    version = re.match(r"seqferry-([^-]+)-", wheel.name)
    assert version is not None, "maturin names it so"
    place = work / architecture.debian
    root, layout = place / "root", place / "image"
    place.mkdir(parents=True)
    place.chmod(0o755)
    make_root(architecture, root)
    install(architecture, wheel, root)
    commit(architecture, version[1], root, layout)
    dist.say(try_where_possible(architecture, layout, version[1]))
    target = out / f"seqferry-{version[1]}-linux-{architecture.debian}.oci.tar"
    archive(layout, target)
    return target


def missing_tools() -> list[str]:
    return sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)


def make(out: Path, work: Path) -> None:
    for architecture in ARCHITECTURES:
        wheels = sorted(out.glob(f"seqferry-*-manylinux*_{architecture.machine}.whl"))
        if not wheels:
            dist.say(f"left out: image for {architecture.debian}; {out} has no wheel for it")
            continue
        image = build_image(architecture, wheels[0], work, out)
        dist.say(f"{image.name}: {image.stat().st_size / 1e6:.1f} MB")
    dist.seal(out)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build an OCI image from each wheel, without a container engine.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist/release", help="folder with wheels")
    parser.add_argument("--keep", type=Path, help="leave what is made on the way in this folder")
    given = parser.parse_args()
    if missing := missing_tools():
        print(f"image: no image is built: install {', '.join(missing)} (Debian: apt-get install ...)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="seqferry-image-") as name:
        work = Path(name)
        work.chmod(0o755)
        try:
            make(given.out.resolve(), given.keep.resolve() if given.keep else work)
        except (ImageError, subprocess.CalledProcessError) as why:
            print(f"image: failed: {why}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
