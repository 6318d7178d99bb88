"""Files that libnfs writes to a share, each committed: ``python nfs_files.py URL PREFIX COUNT [PIECES]``.

A file is ``BODY`` as often as ``PIECES`` says. The status of a refusal is printed, and ends the program.
"""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any, Final

BODY: Final = b"0123456789abcdef" * 64
_PIECE: Final = 256 * 1024
_STATUS: Final = {5: "NFS3ERR_IO", 28: "NFS3ERR_NOSPC", 10008: "NFS3ERR_JUKEBOX"}


class _Url(ctypes.Structure):
    _fields_ = (("server", ctypes.c_char_p), ("path", ctypes.c_char_p), ("file", ctypes.c_char_p))


def _library() -> Any:
    library = ctypes.CDLL("libnfs.so.13")
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    library.nfs_init_context.restype = pointer
    library.nfs_parse_url_dir.argtypes = (pointer, text)
    library.nfs_parse_url_dir.restype = ctypes.POINTER(_Url)
    library.nfs_get_error.argtypes = (pointer,)
    library.nfs_get_error.restype = text
    library.nfs_mount.argtypes = (pointer, text, text)
    library.nfs_creat.argtypes = (pointer, text, ctypes.c_int, ctypes.POINTER(pointer))
    library.nfs_write.argtypes = (pointer, pointer, ctypes.c_uint64, text)
    library.nfs_fsync.argtypes = (pointer, pointer)
    library.nfs_close.argtypes = (pointer, pointer)
    return library


def main(url: str, prefix: str, count: str, pieces: str = "1") -> None:
    library = _library()
    context = library.nfs_init_context()
    parsed = library.nfs_parse_url_dir(context, url.encode())
    if not parsed or library.nfs_mount(context, parsed.contents.server, parsed.contents.path):
        sys.exit(f"mounting {url}: {library.nfs_get_error(context).decode()}")
    for number in range(int(count)):
        name, file = f"{prefix}{number}", ctypes.c_void_p()
        _check(library, context, library.nfs_creat(context, f"/{name}".encode(), 0o644, ctypes.byref(file)), name)
        body = BODY * int(pieces)
        for start in range(0, len(body), _PIECE):
            piece = body[start : start + _PIECE]
            _check(library, context, library.nfs_write(context, file, len(piece), piece), name)
        _check(library, context, library.nfs_fsync(context, file), name)
        _check(library, context, library.nfs_close(context, file), name)


def _check(library: Any, context: int, status: int, what: str) -> None:
    if status >= 0:
        return
    said = library.nfs_get_error(context)
    # Of a write that was refused libnfs prints the bytes of the status.
    raw = re.search(rb'failed with "([^"]{1,2})"', said)
    if raw is not None:
        status = int.from_bytes(raw[1], "little")
        said = _STATUS.get(status, f"NFS status {status}").encode()
    sys.exit(f"{what}: {said.decode(errors='replace')}")


if __name__ == "__main__":
    main(*sys.argv[1:])
