"""Names of a share removed and renamed by libnfs: ``python -I nfs_calls.py URL CALL...``, for tests that kill it.

A call is ``remove:NAME`` or ``rename:NAME:NEW``. Each that the server has acknowledged is printed as a line. A name
that is not there any more counts as done: the answer to an earlier attempt may have been lost.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.libnfs import NfsError, Share


def main(url: str, *calls: str) -> None:
    share = Share(url)
    for call in calls:
        kind, *names = call.split(":")
        try:
            share.remove(*names) if kind == "remove" else share.rename(*names)
        except NfsError as error:
            if error.status != -errno.ENOENT:
                raise
        print(call, flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except NfsError as error:
        sys.exit(str(error))
