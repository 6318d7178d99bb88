"""Takes the folder of the build out of a wheel: maturin's bill of materials names crates by their paths there.

The same sources then give the same wheel in any folder, and the wheel says nothing of the machine that built it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Final

NEUTRAL: Final = b"file:///seqferry"


def without_root(text: bytes, root: Path) -> bytes:
    """A text whose file URLs below a folder are below ``/seqferry``."""
    return text.replace(root.as_uri().encode(), NEUTRAL)


def remove_root(wheel: Path, root: Path) -> None:
    """Rewrite the bills of materials of a wheel, and their lines in its RECORD. All else stays as it is."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(entry, archive.read(entry)) for entry in archive.infolist()]
    changed = {entry.filename: without_root(data, root) for entry, data in files if "/sboms/" in entry.filename}
    written = wheel.with_suffix(".new")
    with zipfile.ZipFile(written, "w") as archive:
        for entry, data in files:
            is_record = entry.filename.endswith(".dist-info/RECORD")
            archive.writestr(entry, _record(data, changed) if is_record else changed.get(entry.filename, data))
    written.replace(wheel)


def _record(record: bytes, changed: dict[str, bytes]) -> bytes:
    """A RECORD with the digests and sizes of the changed files."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    for name, digest, size in csv.reader(io.StringIO(record.decode())):
        if (data := changed.get(name)) is None:
            rows.writerow((name, digest, size))
        else:
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.writerow((name, f"sha256={sha256}", len(data)))
    return written.getvalue().encode()
