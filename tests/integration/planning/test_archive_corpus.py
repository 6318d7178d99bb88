"""Archives as other programs make them: each gives the tree that GNU tar gives (of a zip bsdtar), or a named refusal.

Times (to the nanosecond) and permissions are compared too. An archive is made where its program is installed. All of a
group are unpacked by one worker: starting a command for each would cost most of the time.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from archives import makers, sources
from archives.makers import (
    END,
    Maker,
    bsd,
    busybox,
    changed,
    file,
    gnu,
    header,
    info_zip,
    made,
    python_tar,
    python_zip,
    records,
)
from archives.makers import seven as _7z
from control import until_ended

from seqferry.planning.unpacking import build_unpack_spec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker


class Case(NamedTuple):
    """An archive.

    Attributes:
        refused: code of what is refused: the archive, or some of its members while the others arrive.
        tolerate: what is to be tolerated, as a person gives it.
    """

    make: Maker
    ending: str = ".tar"
    refused: str | None = None
    tolerate: tuple[str, ...] = ()


def _zip(make: Maker, refused: str | None = None) -> Case:
    return Case(make, ".zip", refused)


def _zeros(count: int) -> Callable[[bytes], bytes]:
    return lambda whole: gzip.compress(whole) + bytes(count)


def _prefixed(whole: bytes) -> bytes:
    return b"#!/bin/sh\nexec unzip $0\n" + whole


GNU: Final = {
    "v7": Case(gnu("--format=v7", source="simple")),
    "oldgnu": Case(gnu("--format=oldgnu")),
    "gnu": Case(gnu("--format=gnu")),
    "ustar": Case(gnu("--format=ustar", source="simple")),
    "posix": Case(gnu("--format=posix")),
    "sparse in oldgnu": Case(gnu("--format=oldgnu", "-S")),
    "sparse in gnu": Case(gnu("--format=gnu", "-S")),
    "sparse 0.0": Case(gnu("--format=posix", "-S", "--sparse-version=0.0")),
    "sparse 0.1": Case(gnu("--format=posix", "-S", "--sparse-version=0.1")),
    "sparse 1.0": Case(gnu("--format=posix", "-S", "--sparse-version=1.0")),
    "a label": Case(gnu("--format=gnu", "-V", "RUN 42")),
    "a label in posix": Case(gnu("--format=posix", "-V", "RUN 42")),
    "a first dump": Case(makers.incremental("gnu", first=True)),
    "a first dump in posix": Case(makers.incremental("posix", first=True)),
    "a second dump": Case(makers.incremental("gnu")),
    "a second dump in posix": Case(makers.incremental("posix")),
    "names given twice": Case(makers.twice),
    "blocks of a tape": Case(gnu("-b", "2048")),
    "single blocks": Case(gnu("-b", "1")),
    "names and ids of owners": Case(gnu("--owner=someone:4000000000", "--group=some:3000000")),
    "before 1970": Case(gnu("--mtime=@-1000000000")),
    "after 2106": Case(gnu("--mtime=@5000000000")),
    "after 2242": Case(gnu("--format=posix", "--mtime=@9000000000")),
    "fractions before 1970": Case(gnu("--format=posix", "--mtime=@-1000.25")),
    "global headers that state times": Case(gnu("--format=posix", "--pax-option=mtime=1234567.5")),
    "global headers": Case(gnu("--format=posix", "--pax-option=comment=x,globexthdr.name=g/%n")),
    "links followed": Case(gnu("-h", source="simple")),
    "hard links as files": Case(gnu("--hard-dereference")),
    "attributes": Case(gnu("--format=posix", "--xattrs", "--acls")),
    "names without a dot": Case(gnu(names=("run", "top.txt"))),
    "names in reverse": Case(gnu("--sort=none", names=("top.txt", "run/one", "run"), source="simple")),
    "absolute names": Case(gnu("-P", "--transform=s,^[.]/,/tmp/seqferry-not-there/,"), refused="AbsolutePath"),
    "names that climb": Case(gnu("-P", "--transform=s,^[.]/top,../top,"), refused="ParentComponent"),
    "a fifo": Case(makers.special),
    "joined": Case(makers.joined),
    "appended to": Case(makers.again, refused="Duplicate"),
    "two behind each other": Case(changed(gnu(), lambda whole: whole + whole), refused="InvalidArchive"),
    "the first of two": Case(changed(gnu(), lambda whole: whole + whole), tolerate=("trailing-bytes",)),
    "bytes behind the end": Case(changed(gnu(), lambda whole: whole + b"signed"), refused="InvalidArchive"),
    "bytes behind the end left out": Case(
        changed(gnu(), lambda whole: whole + b"signed"), tolerate=("trailing-bytes",)
    ),
    "without an end": Case(changed(gnu("-b", "1"), lambda whole: whole[:-1024]), refused="TruncatedArchive"),
    "without an end, tolerated": Case(
        changed(gnu("-b", "1"), lambda whole: whole[:-1024]), tolerate=("missing-end",)
    ),
    "cut off": Case(changed(gnu(), lambda whole: whole[:40_000]), refused="TruncatedArchive"),
    "no members": Case(makers.empty()),
    "the first volume": Case(makers.volume(0), refused="TruncatedArchive"),
    "the second volume": Case(makers.volume(1), refused="UnsupportedType"),
    "gzip": Case(gnu("-z"), ".tar.gz"),
    "gzip and zeros": Case(changed(gnu(), _zeros(10_000)), ".tgz"),
    "gzip and other bytes": Case(changed(gnu(), lambda whole: _zeros(9)(whole) + b"x"), ".tgz", "InvalidArchive"),
    "gzip and other bytes, tolerated": Case(
        changed(gnu(), lambda whole: gzip.compress(whole) + b"signed"), ".tgz", tolerate=("trailing-bytes",)
    ),
    "gzip and zeros and other bytes, tolerated": Case(
        changed(gnu(), lambda whole: _zeros(9)(whole) + b"x"), ".tgz", tolerate=("trailing-bytes",)
    ),
    "gzip and the start of a member": Case(
        changed(gnu(), lambda whole: gzip.compress(whole) + gzip.compress(b"x")[:9]),
        ".tgz",
        "DamagedArchive",
        ("trailing-bytes",),
    ),
    "gzip under the name of a tar": Case(gnu("-z"), ".tar"),
    "zstd under the name of a tar": Case(gnu("--zstd"), ".tar"),
    "zstd and other bytes": Case(makers.signed_zstd, ".tar.zst", "InvalidArchive"),
    "zstd and other bytes, tolerated": Case(makers.signed_zstd, ".tar.zst", tolerate=("trailing-bytes",)),
    "gzip of no members": Case(makers.empty("-z"), ".tar.gz"),
    "gzip in members": Case(makers.members, ".tar.gz"),
    "zstd": Case(gnu("--zstd"), ".tar.zst"),
    "zstd in frames": Case(makers.frames, ".tar.zst"),
    "zstd with a wide window": Case(makers.wide_window, ".tar.zst", "WindowTooLarge"),
    "bzip2": Case(makers.bzipped, ".tar.bz2", "NotAnArchive"),
    "xz": Case(gnu("-J"), ".tar.xz", "NotAnArchive"),
}  # fmt: skip

BSDTAR: Final = {
    "pax": Case(bsd("--format", "pax")),
    "restricted pax": Case(bsd("--format", "rpax")),
    "gnu": Case(bsd("--format", "gnutar")),
    "ustar": Case(bsd("--format", "ustar", source="simple")),
    "v7": Case(bsd("--format", "v7", source="simple")),
    "pax without attributes": Case(bsd("--format", "pax", "--no-xattrs", "--no-acls", "--no-fflags")),
    "pax with binary names": Case(bsd("--format", "pax", "--options", "hdrcharset=BINARY")),
    "gzip": Case(bsd("-z"), ".tar.gz"),
    "zstd": Case(bsd("--zstd"), ".tar.zst"),
    "zip": _zip(bsd("--format", "zip")),
    "zip, stored": _zip(bsd("--format", "zip", "--options", "zip:compression=store")),
    "cpio": Case(bsd("--format", "cpio", source="simple"), ".cpio", "NotAnArchive"),
    "7zip": Case(bsd("--format", "7zip", source="simple"), ".7z", "NotAnArchive"),
    "shar": Case(bsd("--format", "shar", source="simple"), ".shar", "NotAnArchive"),
}

BUSYBOX: Final = {
    "tar": Case(busybox()),
    "tar without links": Case(busybox("-h", source="simple")),
    "gzip": Case(busybox("-z"), ".tar.gz"),
    "gzip of its own": Case(makers.busybox_gzip, ".tgz"),
}

SEVEN: Final = {
    "tar": Case(_7z("-ttar")),
    "tar of posix": Case(_7z("-ttar", "-mm=pax")),
    "zip": _zip(_7z("-tzip")),
    "zip, stored": _zip(_7z("-tzip", "-mx=0")),
    "zip with names marked": _zip(_7z("-tzip", "-mcu=on")),
    "zip, bzip2": _zip(_7z("-tzip", "-mm=BZip2"), "Compression"),
    "zip, deflate64": _zip(_7z("-tzip", "-mm=Deflate64"), "Compression"),
    "zip, lzma": _zip(_7z("-tzip", "-mm=LZMA"), "Compression"),
    "zip, encrypted": _zip(_7z("-tzip", "-psecret"), "Encrypted"),
}

ZIP: Final = {
    "deflated": _zip(info_zip()),
    "under the name of a tar": Case(info_zip(), ".tar"),
    "stored": _zip(info_zip("-0")),
    "links": _zip(info_zip("-y", source="tree", without="./C:drive")),
    "best compression": _zip(info_zip("-9")),
    "without extra fields": _zip(info_zip("-X")),
    "written as a stream": _zip(makers.of_stream),
    "encrypted": _zip(info_zip("-P", "secret"), "Encrypted"),
    "a comment": _zip(makers.commented(b"delivered on 1 July")),
    "the end signature in its comment": _zip(makers.commented(b"see PK\x05\x06 for the end")),
    "an end record in its comment": _zip(makers.commented(b"PK\x05\x06" + bytes(18)), "InvalidArchive"),
    "a second directory in its comment": _zip(makers.two_directories, "InvalidArchive"),
    "self-extracting": Case(makers.self_extracting, ".exe"),
    "behind a script": Case(changed(info_zip(), _prefixed), ".run"),
    "folders that only their modes show": _zip(makers.zip_of_folders(3, 0o040750 << 16)),
    "folders that only MS-DOS attributes show": _zip(makers.zip_of_folders(0, 0x10)),
    "a folder with contents": _zip(makers.zip_of_folders(3, 0o040750 << 16, contents=b"x"), "AmbiguousKind"),
    "another name in a local header": _zip(
        changed(info_zip(), lambda whole: whole.replace(b"run/odd", b"run/ODD", 1)), "DamagedArchive"
    ),
    "no members": _zip(made(lambda: b"PK\x05\x06" + bytes(18))),
    "cut off": _zip(changed(info_zip(), lambda whole: whole[:-30]), "InvalidArchive"),
}

PYTHON: Final = {
    "gnu": Case(python_tar(tarfile.GNU_FORMAT)),
    "pax": Case(python_tar(tarfile.PAX_FORMAT)),
    "ustar": Case(python_tar(tarfile.USTAR_FORMAT, source="simple")),
    "a stream": Case(python_tar(tarfile.PAX_FORMAT, "w|")),
    "gzip": Case(python_tar(tarfile.PAX_FORMAT, "w:gz"), ".tar.gz"),
    "zip, deflated": _zip(python_zip(zipfile.ZIP_DEFLATED)),
    "zip, stored": _zip(python_zip(zipfile.ZIP_STORED)),
    "zip, 64 bits": _zip(python_zip(zipfile.ZIP_DEFLATED, zip64=True)),
    "zip, bzip2": _zip(python_zip(zipfile.ZIP_BZIP2), "Compression"),
    "zip, lzma": _zip(python_zip(zipfile.ZIP_LZMA), "Compression"),
    "a folder with a size": Case(made(lambda: header("d/", b"5", 4096, mode=0o755) + file("d/a") + END)),
    "a hard link with a size": Case(made(lambda: file("a") + header("h", b"1", 5, "a") + file("b") + END)),
    # GNU tar -t skips as many bytes, GNU tar -x does not.
    "a symbolic link with a size": Case(
        made(lambda: file("a") + header("l", b"2", 5, "a") + file("b") + END), refused="InvalidArchive"
    ),
    "a hard link with contents": Case(
        made(lambda: file("a") + header("h", b"1", 5, "a") + file("x")[512:] + END), refused="InvalidArchive"
    ),
    "records given twice": Case(
        made(lambda: records(("comment", "a"), ("mtime", "5"), ("comment", "b"), ("mtime", "7.5")) + file("a") + END)
    ),
    "names given twice in records": Case(
        made(lambda: records(("path", "a"), ("path", "b")) + file("c") + END), refused="InvalidArchive"
    ),
    "attributes whose names are no text": Case(
        made(lambda: records((b"SCHILY.xattr.user.\xff", "a"), ("path", "b")) + file("c") + END)
    ),
    "records of Solaris": Case(
        made(lambda: records(("path", "long/name"), ("mtime", "5"), kind=b"X") + file("a") + file("b") + END)
    ),
    "sizes left blank": Case(
        made(lambda: header("d/", b"5", None, mode=0o755) + header("l", b"2", None, "a") + file("a") + END)
    ),
    "a hard link to itself": Case(made(lambda: file("a") + header("a", b"1", 0, "a") + END)),
    "a hard link to itself, in a circle": Case(
        made(lambda: file("a") + header("b", b"1", 0, "a") + header("a", b"1", 0, "b") + END)
    ),
    "a hard link to nothing": Case(made(lambda: file("a") + header("h", b"1", 0, "h") + END), refused="HardLinkTarget"),
    "no bytes, tolerated": Case(made(lambda: b""), tolerate=("missing-end",)),
}

GROUPS: Final[Mapping[str, tuple[Mapping[str, Case], str]]] = {
    "gnu": (GNU, "tar"),
    "bsdtar": (BSDTAR, "bsdtar"),
    "busybox": (BUSYBOX, "busybox"),
    "7z": (SEVEN, "7z"),
    "zip": (ZIP, "zip"),
    "python": (PYTHON, "tar"),
}


@pytest.fixture
def material(tmp_path: Path) -> Path:
    """A folder with the sources of archives."""
    folder = tmp_path / "material"
    for name, fill in (("simple", sources.make_simple), ("tree", sources.make_tree)):
        (folder / name).mkdir(parents=True)
        fill(folder / name)
    return folder


@pytest.fixture
def unpack(
    sqlite_settings: Settings, start_worker: Callable[[Service], Worker], tmp_path: Path
) -> Callable[[Path, Case], list[str]]:
    """``unpack(archive, case)``: what differs from the tree that another program makes, in words."""
    service = Service.open(sqlite_settings)
    start_worker(service)

    def check(archive: Path, case: Case) -> list[str]:
        folder = tmp_path / "to" / archive.name
        folder.mkdir(parents=True)
        spec = build_unpack_spec(str(archive), str(folder / "ours"), tolerate=case.tolerate, allow_local=True)
        status = until_ended(service, service.submit(spec, actor="ada"))
        refused = {group.error_code for group in service.failures(status.id)}
        refused |= {status.error_code} if status.error_code else set()
        if refused != ({case.refused} if case.refused else set()):
            return [f"refused with {refused or 'nothing'}: {status.error_message}"]
        if status.state == "failed":
            return [] if "Nothing " in str(status.error_message) else [f"it says only: {status.error_message}"]
        (folder / "ours").mkdir(exist_ok=True)
        found = sources.tree(folder / "ours")
        told = sources.differences(
            _as_others(archive, folder / "theirs", may_fail=bool(case.refused or case.tolerate)), found
        )
        # What is refused is missing here, and all else is as there.
        return [one for one in told if not (case.refused and one.endswith("is missing"))]

    return check


def _as_others(archive: Path, folder: Path, *, may_fail: bool) -> dict[str, sources.Entry]:
    """The tree that GNU tar makes of an archive, or bsdtar of a zip, as an ordinary user's."""
    folder.mkdir()
    with archive.open("rb") as opened:
        is_tar = archive.suffix not in (".zip", ".exe", ".run") and opened.read(2) not in (b"", b"PK")
    if is_tar:
        options = ("--no-same-owner", "--no-same-permissions", "--delay-directory-restore")
        sources.run("tar", "-xf", str(archive), *options, "-C", str(folder), cwd=folder, may_fail=may_fail)
    elif archive.stat().st_size > 22:
        options = ("-o", "--no-same-permissions", "--passphrase", "secret")
        sources.run("bsdtar", "-xf", str(archive), *options, "-C", str(folder), cwd=folder, may_fail=may_fail)
    found = sources.tree(folder)
    # Devices and FIFOs are left out.
    return {path: entry for path, entry in found.items() if entry.kind in "-dl"}


@pytest.mark.parametrize("group", GROUPS)
def test_archives_give_the_tree_of_tar_or_a_named_refusal(
    group: str, material: Path, unpack: Callable[[Path, Case], list[str]], tmp_path: Path
) -> None:
    cases, program = GROUPS[group]
    _needs(program)
    wrong: list[str] = []
    for number, (name, case) in enumerate(cases.items()):
        archive = tmp_path / f"{number:02d}{case.ending}"
        case.make(material, archive)
        wrong += [f"{group}, {name}: {one}" for one in unpack(archive, case)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("make", "ending"),
    [
        (gnu("-b", "65536"), ".tar"),
        (changed(gnu(), lambda whole: whole + b"signed"), ".tar"),
        (changed(gnu(), lambda whole: gzip.compress(whole) + b"signed"), ".tgz"),
        (makers.signed_zstd, ".tar.zst"),
    ],
)
def test_advice_on_what_follows_an_archive_works(
    make: Maker, ending: str, material: Path, unpack: Callable[[Path, Case], list[str]], tmp_path: Path
) -> None:
    refused, read = tmp_path / f"0{ending}", tmp_path / f"1{ending}"
    make(material, refused)
    make(material, read)

    (told,) = unpack(refused, Case(make))

    assert "--tolerate trailing-bytes" in told
    assert unpack(read, Case(make, tolerate=("trailing-bytes",))) == []


def test_archives_of_go_give_the_tree_of_tar(unpack: Callable[[Path, Case], list[str]], tmp_path: Path) -> None:
    _needs("go")
    source = tmp_path / "made/main.go"
    source.parent.mkdir()
    shutil.copy(Path(__file__).parents[1] / "archives/go.txt", source)
    sources.run("go", "run", str(source), str(source.parent), cwd=source.parent)
    _check_all(source.parent, unpack, 5)


def test_archives_of_java_give_the_tree_of_bsdtar(
    unpack: Callable[[Path, Case], list[str]], material: Path, tmp_path: Path
) -> None:
    _needs("javac")
    folder = tmp_path / "made"
    folder.mkdir()
    sources.run("java", str(Path(__file__).parents[1] / "archives/Make.java"), str(folder), cwd=folder)
    sources.run("jar", "--create", "--file", str(folder / "jar.zip"), "-C", "simple", ".", cwd=material)
    old = folder / "java-cp437.zip"
    # bsdtar gives the bytes of such names as they are.
    assert [one.split(" is Entry")[0] for one in unpack(old, Case(makers.of_stream))] == [
        "'d/\\udc81n\\udc8b' is missing",
        "'d/ünï' should not be there",
    ]  # fmt: skip
    old.unlink()
    _check_all(folder, unpack, 3)


def _check_all(folder: Path, unpack: Callable[[Path, Case], list[str]], count: int) -> None:
    archives = sorted(path for path in folder.iterdir() if path.suffix in (".tar", ".zip"))
    assert len(archives) == count
    wrong = [f"{path.name}: {one}" for path in archives for one in unpack(path, Case(makers.of_stream))]
    assert not wrong, "\n".join(wrong)


def test_the_comment_of_a_zip_may_hold_anything(
    material: Path, sqlite_settings: Settings, start_worker: Callable[[Service], Worker], tmp_path: Path
) -> None:
    _needs("zip")
    with Service.open(sqlite_settings) as service:
        start_worker(service)
        for number, comment in enumerate((b"PK\x05\x06" * 50, b"PK\x05\x06" * 16_000, b"x" * 65_535)):
            archive, folder = tmp_path / f"{number}.zip", tmp_path / f"to{number}"
            makers.commented(comment)(material, archive)
            spec = build_unpack_spec(str(archive), str(folder), allow_local=True)

            status = until_ended(service, service.submit(spec, actor="ada"))

            assert (status.state, status.totals.failed) == ("done", 0), status.error_message
            # bsdtar gives up on the directory, and with it on permissions.
            assert not sources.differences(sources.tree(material / "simple"), sources.tree(folder))


@pytest.mark.parametrize(
    ("raw", "system", "path"),
    [
        (b"gr\x81n/\xe1\xe3.txt", 0, "grün/ßπ.txt"),
        (b"gr\x81n.txt", 3, "grün.txt"),
        ("grün.txt".encode(), 3, "grün.txt"),
        (b"in\\sub\\a.txt", 0, "in/sub/a.txt"),
        (b"X:1-1000.bed", 3, "X:1-1000.bed"),
    ],
)
def test_names_in_a_zip_are_utf8_or_those_of_ms_dos(
    sqlite_settings: Settings,
    start_worker: Callable[[Service], Worker],
    tmp_path: Path,
    raw: bytes,
    system: int,
    path: str,
) -> None:
    archive, folder = tmp_path / "x.zip", tmp_path / "to"
    archive.write_bytes(makers.named_zip(raw, system=system))
    with Service.open(sqlite_settings) as service:
        start_worker(service)
        spec = build_unpack_spec(str(archive), str(folder), allow_local=True)

        status = until_ended(service, service.submit(spec, actor="ada"))

    assert (status.state, status.totals.failed) == ("done", 0)
    assert (folder / path).read_bytes() == b"contents"


def _needs(program: str) -> None:
    if shutil.which(program) is None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(f"{program} is not installed, and all programs are required")
        pytest.skip(f"{program} is not installed")
