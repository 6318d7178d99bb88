"""Hostile and broken archives on this machine: what the engine refuses as a whole, and which members."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from seqferry.engine.engine import Engine, FoundMember
from seqferry.model.errors import StorageError
from seqferry.planning.unpacking import build_unpack_spec, scan
from seqferry.settings.config import Settings
from support.made_archives import HOSTILE, MIB, MTIME, many, raw, split_zip


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.of(Settings.load())


def _scan(engine: Engine, archive: Path, tolerate: Sequence[str] = ()) -> list[FoundMember]:
    spec = build_unpack_spec(str(archive), str(archive.parent / "to"), tolerate=tolerate, allow_local=True)
    return [member for page in scan(engine, spec) for member in page]


def _pax_size(size: int) -> bytes:
    """A member whose PAX record states another size than its header."""
    body = many({"inner": b"i" * 100})
    record = f"size={size}\n"
    text = f"{len(record) + 3} {record}".encode()
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(text)
    member = tarfile.TarInfo("outer")
    member.mtime, member.size = MTIME, 512
    return header.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0") + member.tobuf(tarfile.USTAR_FORMAT) + body


def _six_terabytes() -> bytes:
    info = tarfile.TarInfo("huge")
    info.size = 6 * 10**12
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(2048)


def _flipped(whole: bytes, at: int) -> bytes:
    changed = bytearray(whole)
    changed[at] ^= 0x55
    return bytes(changed)


def _cut_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("good", b"good" * 1000)
    return buffer.getvalue()[:-30]


_NOT_UNPACKED: Final = "Nothing of it is unpacked"
_GZIPPED: Final = gzip.compress(many({name: random.Random(name).randbytes(200_000) for name in "ab"}), 1)


@pytest.mark.parametrize(
    ("name", "body", "code", "said"),
    [
        pytest.param(name, body, code, said, id=case)
        for case, name, body, code, said in [
            ("contents cut", "x.tar", many({"a": b"1", "b": b"2" * MIB})[:6536], "TruncatedArchive", _NOT_UNPACKED),
            ("header cut", "x.tar", many({"a": b"1", "b": b"2"})[:1300], "TruncatedArchive", _NOT_UNPACKED),
            ("no end mark", "x.tar", many({"a": b"1"})[:1024], "TruncatedArchive", "--tolerate missing-end"),
            ("a member of 6 TB", "x.tar", _six_terabytes(), "TruncatedArchive", _NOT_UNPACKED),
            ("two sizes", "x.tar", _pax_size(10240), "InvalidArchive", "--tolerate two-sizes"),
            ("a damaged header", "x.tar", _flipped(many({"a": b"1" * 600, "b": b"2"}), 1546), "InvalidArchive", ""),
            ("another archive", "x.tar", many({"a": b"1"}) + many({"b": b""}), "InvalidArchive", "concatenated"),
            ("a signature", "x.tar", many({"a": b"1"}) + b"a signature", "InvalidArchive", "trailing-bytes"),
            ("other blocks", "x.tar", many({"a": b"1"}) + b"x" * 5000, "InvalidArchive", "trailing-bytes"),
            ("no archive", "x.tar", b"this is no archive" * 100, "NotAnArchive", _NOT_UNPACKED),
            ("no bytes in a tar", "x.tar", b"", "TruncatedArchive", _NOT_UNPACKED),
            *(
                (f"no bytes in {name}", name, b"", "EmptyArchive", "0 bytes")
                for name in ("x.tar.gz", "x.TGZ", "x.tar.zst", "x.zip")
            ),
            ("gzip cut", "x.tgz", _GZIPPED[: len(_GZIPPED) // 2], "DamagedArchive", "Fetch the archive again"),
            ("gzip damaged", "x.tgz", _flipped(_GZIPPED, len(_GZIPPED) // 3), "DamagedArchive", "Fetch the archive"),
            (
                "gzip of a cut tar", "x.tgz", gzip.compress(many({"a": b"1" * 100_000})[:50_000]),
                "TruncatedArchive", "Fetch the archive again",
            ),
            ("zip cut", "x.zip", _cut_zip(), "InvalidArchive", _NOT_UNPACKED),
        ]
    ],
)  # fmt: skip
def test_a_broken_archive_is_refused_as_a_whole_with_its_cause(
    engine: Engine, tmp_path: Path, name: str, body: bytes, code: str, said: str
) -> None:
    (tmp_path / name).write_bytes(body)

    with pytest.raises(StorageError) as refused:
        _scan(engine, tmp_path / name)

    assert refused.value.error_code == code
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("rest", "tolerate"),
    [(many({"b": b"2"}), "concatenated"), (b"a signature", "trailing-bytes"), (b"x" * 5000, "trailing-bytes")],
)
def test_the_advice_on_bytes_behind_the_end_can_work(
    engine: Engine, tmp_path: Path, rest: bytes, tolerate: str
) -> None:
    (tmp_path / "x.tar").write_bytes(many({"a": b"1"}) + rest)

    assert _scan(engine, tmp_path / "x.tar", [tolerate])[0].path == "a"


@pytest.mark.parametrize("program", ["zip", "7z"])
def test_each_volume_of_a_split_zip_is_named(engine: Engine, tmp_path: Path, program: str) -> None:
    for name, body in split_zip(program, tmp_path).items():
        (tmp_path / name).write_bytes(body)
        with pytest.raises(StorageError, match=r"split \(multi-disk\) zip") as refused:
            _scan(engine, tmp_path / name)
        assert refused.value.error_code == "SplitArchive", name
        assert "volumes" in refused.value.message, name


@pytest.mark.parametrize("member", HOSTILE)
def test_a_hostile_member_is_refused_and_the_others_are_not(engine: Engine, tmp_path: Path, member: str) -> None:
    entries, code = HOSTILE[member]
    (tmp_path / "x.tar").write_bytes(raw(({"name": "good"}, b"good"), *entries))

    found = _scan(engine, tmp_path / "x.tar")

    assert [(one.name, one.refusal[0]) for one in found if one.refusal] == [(member, code)]
    assert found[0].path == "good"
