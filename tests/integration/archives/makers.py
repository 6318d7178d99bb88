"""How each archive is made. A maker gets the folder with ``simple`` and ``tree`` and the path of its archive."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from archives.sources import run

Maker = Callable[[Path, Path], None]

BLOCK: Final = 512


def gnu(*options: str, source: str = "tree", names: tuple[str, ...] = (".",)) -> Maker:
    def make(folder: Path, archive: Path) -> None:
        run("tar", *options, "-cf", str(archive), "-C", source, *names, cwd=folder)

    return make


def bsd(*options: str, source: str = "tree") -> Maker:
    def make(folder: Path, archive: Path) -> None:
        run("bsdtar", *options, "-cf", str(archive), "-C", source, ".", cwd=folder)

    return make


def busybox(*options: str, source: str = "tree") -> Maker:
    def make(folder: Path, archive: Path) -> None:
        run("busybox", "tar", *options, "-cf", str(archive), "-C", source, ".", cwd=folder)

    return make


def busybox_gzip(folder: Path, archive: Path) -> None:
    """A tar and a gzip that busybox makes, one after the other."""
    whole = run("busybox", "tar", "-c", "tree", cwd=folder)
    archive.write_bytes(run("busybox", "gzip", "-c", cwd=folder, stdin=whole))


def seven(*options: str, source: str = "simple") -> Maker:
    def make(folder: Path, archive: Path) -> None:
        run("7z", "a", "-bd", *options, str(archive), ".", cwd=folder / source)

    return make


def info_zip(*options: str, source: str = "simple", without: str | None = None) -> Maker:
    def make(folder: Path, archive: Path) -> None:
        left_out = () if without is None else ("-x", without)  # bsdtar takes it for a drive
        run("zip", "-q", "-r", *options, str(archive), ".", *left_out, cwd=folder / source)

    return make


def changed(maker: Maker, change: Callable[[bytes], bytes]) -> Maker:
    """An archive whose bytes are changed."""

    def make(folder: Path, archive: Path) -> None:
        maker(folder, archive)
        archive.write_bytes(change(archive.read_bytes()))

    return make


def made(build: Callable[[], bytes]) -> Maker:
    """An archive of these bytes."""

    def make(folder: Path, archive: Path) -> None:
        del folder
        archive.write_bytes(build())

    return make


def python_tar(format: int, mode: str = "w", source: str = "tree") -> Maker:  # noqa: A002 - as tarfile names it
    def make(folder: Path, archive: Path) -> None:
        with tarfile.open(archive, cast("Any", mode), format=format) as written:
            written.add(folder / source, "in")

    return make


def python_zip(method: int, *, zip64: bool = False) -> Maker:
    def make(folder: Path, archive: Path) -> None:
        with zipfile.ZipFile(archive, "w", method) as written:
            for path in sorted((folder / "simple").rglob("*")):
                name = str(path.relative_to(folder / "simple"))
                if path.is_dir():
                    written.write(path, name)
                    continue
                info = zipfile.ZipInfo.from_file(path, name)
                info.compress_type = method
                with written.open(info, "w", force_zip64=zip64) as member:
                    member.write(path.read_bytes())

    return make


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int | None = 0, link: str = "", mode: int = 0o644) -> bytes:
    """A header block that states a size, whatever its type; None leaves it blank."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.mtime = kind, link, mode, 1_000_000_000
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = bytes(12) if size is None else b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def file(name: str, body: bytes = b"hello") -> bytes:
    return header(name, size=len(body)) + body + bytes(-len(body) % BLOCK)


END: Final = bytes(2 * BLOCK)


def records(*pairs: tuple[str | bytes, str], kind: bytes = b"x") -> bytes:
    """A PAX header of these records."""
    body = b""
    for key, value in pairs:
        record = b" %s=%s\n" % (key if isinstance(key, bytes) else key.encode(), value.encode())
        length = next(
            length for length in range(len(record), len(record) + 4) if len(b"%d" % length + record) == length
        )
        body += b"%d" % length + record
    return header("PaxHeaders/x", kind, len(body)) + body + bytes(-len(body) % BLOCK)


def named_zip(name: bytes, *, system: int = 0) -> bytes:
    """A zip of one file whose name is these bytes, without the mark of UTF-8."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        info = zipfile.ZipInfo("n" * len(name), (2001, 9, 9, 1, 46, 40))
        info.create_system = system
        written.writestr(info, b"contents")
    return buffer.getvalue().replace(b"n" * len(name), name)


def zip_of_folders(system: int, attributes: int, contents: bytes = b"") -> Maker:
    """A zip of folders whose names have no slash at their end."""

    def make(folder: Path, archive: Path) -> None:
        del folder
        with zipfile.ZipFile(archive, "w") as written:
            for name, body in (("empty", contents), ("run", b""), ("run/deep", b"")):
                info = zipfile.ZipInfo(name, (2001, 9, 9, 1, 46, 40))
                info.create_system, info.external_attr = system, attributes
                written.writestr(info, body)
            written.writestr(zipfile.ZipInfo("run/deep/file", (2001, 9, 9, 1, 46, 40)), b"contents")

    return make


def commented(comment: bytes) -> Maker:
    def make(folder: Path, archive: Path) -> None:
        info_zip()(folder, archive)
        with zipfile.ZipFile(archive, "a") as written:
            written.comment = comment

    return make


def empty(*options: str) -> Maker:
    """An archive without members."""

    def make(folder: Path, archive: Path) -> None:
        run("tar", *options, "-cf", str(archive), "-T", "/dev/null", cwd=folder)

    return make


def two_directories(folder: Path, archive: Path) -> None:
    """A zip whose comment is another directory of it, with an end record of its own."""
    info_zip()(folder, archive)
    whole = archive.read_bytes()
    size, start = (int.from_bytes(whole[at : at + 4], "little") for at in (len(whole) - 10, len(whole) - 6))
    second = whole[start : start + size] + whole[-22:-6] + len(whole).to_bytes(4, "little") + bytes(2)
    archive.write_bytes(whole[:-2] + len(second).to_bytes(2, "little") + second)


def self_extracting(folder: Path, archive: Path) -> None:
    """A program before the zip, and offsets that count from the start of the program, as ``zip -A`` makes them."""
    info_zip()(folder, archive.with_suffix(".zip"))
    archive.write_bytes(b"\x7fELF a program" + bytes(5000) + archive.with_suffix(".zip").read_bytes())
    archive.with_suffix(".zip").unlink()
    run("zip", "-q", "-A", str(archive), cwd=folder)


def of_stream(folder: Path, archive: Path) -> None:
    """A zip that was written without going back: sizes and sums follow the contents."""
    archive.write_bytes(run("zip", "-q", "-r", "-", ".", cwd=folder / "simple"))


def incremental(kind: str, *, first: bool = False) -> Maker:
    """The first or second archive of ``tar -g``: folders with all names, and the files that have changed."""

    def make(folder: Path, archive: Path) -> None:
        snapshot = archive.with_suffix(".snar")
        gnu(f"--format={kind}", "-g", str(snapshot), source="simple")(folder, archive)
        if first:
            return
        late = folder / "simple/run/later"
        late.write_bytes(b"later")
        os.utime(late, (1_000_000_000, 1_000_000_000))
        gnu(f"--format={kind}", "-g", str(snapshot), source="simple")(folder, archive)
        if first:
            return
        late.unlink()

    return make


def members(folder: Path, archive: Path) -> None:
    """A gzip file of several members, as pigz, bgzip and ``cat`` make it."""
    gnu()(folder, archive)
    whole = archive.read_bytes()
    archive.write_bytes(b"".join(gzip.compress(whole[at : at + 65_000]) for at in range(0, len(whole), 65_000)))


def frames(folder: Path, archive: Path) -> None:
    """A Zstandard file of several frames, with one between them that is skipped."""
    gnu()(folder, archive)
    whole = archive.read_bytes()
    half = len(whole) // 2
    parts = [run("zstd", "-q", "-c", cwd=folder, stdin=part) for part in (whole[:half], whole[half:])]
    archive.write_bytes(b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip".join([b"", *parts]))


def signed_zstd(folder: Path, archive: Path) -> None:
    """A Zstandard file, and other bytes behind it."""
    gnu()(folder, archive)
    archive.write_bytes(run("zstd", "-q", "-c", cwd=folder, stdin=archive.read_bytes()) + b"signed")


def wide_window(folder: Path, archive: Path) -> None:
    gnu()(folder, archive)
    archive.write_bytes(run("zstd", "-q", "-c", "--long=31", cwd=folder, stdin=archive.read_bytes()))


def twice(folder: Path, archive: Path) -> None:
    """Names that were given twice: the second time they are links to themselves."""
    names = ("run/odd", "run/odd", "run/link", "run/link")
    run("tar", "-cf", str(archive), "-C", "tree", *names, cwd=folder)


def joined(folder: Path, archive: Path) -> None:
    """``tar -A``: an archive without an end mark between its parts."""
    run("tar", "-cf", str(archive), "-C", "simple", "top.txt", cwd=folder)
    other = archive.with_suffix(".other")
    run("tar", "-cf", str(other), "-C", "simple", "run", cwd=folder)
    run("tar", "-Af", str(archive), str(other), cwd=folder)
    other.unlink()


def again(folder: Path, archive: Path) -> None:
    """``tar -r``: a file that was added once more."""
    run("tar", "-cf", str(archive), "-C", "simple", "run", cwd=folder)
    run("tar", "-rf", str(archive), "-C", "simple", "run/one", cwd=folder)


def special(folder: Path, archive: Path) -> None:
    """A FIFO beside files."""
    os.mkfifo(folder / "simple/run/fifo")
    gnu(source="simple")(folder, archive)
    (folder / "simple/run/fifo").unlink()


def volume(number: int) -> Maker:
    """One volume of an archive of several."""

    def make(folder: Path, archive: Path) -> None:
        volumes = [archive.with_suffix(f".{each}") for each in range(3)]
        several = [word for each in volumes for word in ("-f", str(each))]
        run("tar", "-M", "-L", "60", *several, "-c", "-C", "simple", "run/odd", "run/one", cwd=folder)
        archive.write_bytes(volumes[number].read_bytes())

    return make


def bzipped(folder: Path, archive: Path) -> None:
    gnu()(folder, archive)
    archive.write_bytes(bz2.compress(archive.read_bytes()))
