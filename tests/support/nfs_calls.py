"""Names of a share removed and renamed by libnfs: ``python nfs_calls.py URL CALL...``, for tests that kill it.

A call is ``remove:NAME`` or ``rename:NAME:NEW``. Each that the server has acknowledged is printed as a line. A name
that is not there any more counts as done: the answer to an earlier attempt may have been lost.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from typing import Any


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
    library.nfs_rename.argtypes = (pointer, text, text)
    library.nfs_unlink.argtypes = (pointer, text)
    return library


def main(url: str, *calls: str) -> None:
    library = _library()
    context = library.nfs_init_context()
    parsed = library.nfs_parse_url_dir(context, url.encode())
    if not parsed:
        sys.exit(f"{url}: {library.nfs_get_error(context).decode()}")
    if library.nfs_mount(context, parsed.contents.server, parsed.contents.path):
        sys.exit(f"mounting {url}: {library.nfs_get_error(context).decode()}")
    for call in calls:
        kind, *names = call.split(":")
        paths = [f"/{name}".encode() for name in names]
        status = library.nfs_unlink(context, *paths) if kind == "remove" else library.nfs_rename(context, *paths)
        if status not in {0, -errno.ENOENT}:
            sys.exit(f"{call}: {library.nfs_get_error(context).decode()}")
        print(call, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
