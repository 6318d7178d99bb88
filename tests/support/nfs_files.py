"""Files that libnfs writes to a share, each committed: ``python -I nfs_files.py URL PREFIX COUNT [PIECES]``.

A file is ``BODY`` as often as ``PIECES`` says. The status of a refusal is printed, and ends the program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.libnfs import NfsError, Share

BODY: Final = b"0123456789abcdef" * 64
_PIECE: Final = 256 * 1024


def main(url: str, prefix: str, count: str, pieces: str = "1") -> None:
    share, body = Share(url), BODY * int(pieces)
    for number in range(int(count)):
        file = share.create(f"{prefix}{number}")
        for start in range(0, len(body), _PIECE):
            share.write(file, body[start : start + _PIECE])
        share.sync(file)
        share.close(file)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except NfsError as error:
        sys.exit(str(error))
