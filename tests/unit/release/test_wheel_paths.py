"""A wheel names no folder of the build, and its RECORD is right after the names were taken out."""

from __future__ import annotations

import base64
import hashlib
import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SBOM = "seqferry-0.1.0.dist-info/sboms/seqferry-py.cyclonedx.json"
RECORD = "seqferry-0.1.0.dist-info/RECORD"
LIBRARY = "seqferry/_native.abi3.so"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of the release tools, which import one another by their bare names."""
    monkeypatch.syspath_prepend(str(ROOT / "tools/release"))
    yield importlib.import_module
    for name in ("checks", "wheel_paths"):
        sys.modules.pop(name, None)


def line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def pack(folder: Path, files: dict[str, bytes]) -> Path:
    wheel = folder / "seqferry-0.1.0-cp311-abi3-linux_x86_64.whl"
    record = "".join(line(name, data) for name, data in files.items()) + f"{RECORD},,\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, RECORD: record.encode()}.items():
            entry = zipfile.ZipInfo(name, (2026, 11, 28, 12, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100755 << 16
            archive.writestr(entry, data)
    return wheel


def test_the_folder_of_the_build_is_taken_out_and_all_else_stays(release: Any, tmp_path: Path) -> None:
    sbom = f'{{"bom-ref": "path+file://{ROOT}/crates/py#seqferry-py@0.1.0", "purl": "file://../vfs"}}'.encode()
    wheel = pack(tmp_path, {LIBRARY: b"elf", SBOM: sbom})
    with zipfile.ZipFile(wheel) as archive:
        before = [(one.filename, one.date_time, one.external_attr, one.compress_type) for one in archive.infolist()]

    release("wheel_paths").remove_root(wheel, ROOT)

    expected = b'{"bom-ref": "path+file:///seqferry/crates/py#seqferry-py@0.1.0", "purl": "file://../vfs"}'
    with zipfile.ZipFile(wheel) as archive:
        after = [(one.filename, one.date_time, one.external_attr, one.compress_type) for one in archive.infolist()]
        assert archive.read(SBOM) == expected
        assert archive.read(RECORD).decode() == line(LIBRARY, b"elf") + line(SBOM, expected) + f"{RECORD},,\n"
    assert after == before
    assert [file.name for file in tmp_path.iterdir()] == [wheel.name]


@pytest.mark.parametrize("name", [SBOM, "seqferry/notes.py"])
def test_a_wheel_that_names_the_folder_of_the_build_is_refused(release: Any, tmp_path: Path, name: str) -> None:
    checks = release("checks")
    licences = {f"seqferry-0.1.0.dist-info/licenses/{one}": b"text" for one in checks.LICENCES}
    files = dict.fromkeys({*checks.package_files(), checks.DOCS}, b"") | licences | {LIBRARY: b"elf", SBOM: b"{}"}
    wheel = pack(tmp_path, {**files, name: f"file://{ROOT}/crates".encode()})

    with pytest.raises(checks.CheckError, match=f"{name} names the folder of the build"):
        checks.check_wheel(wheel, page=False)
