"""The environment of a command: its names are bytes in any locale, and AWS variables without a value are not set."""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Prepare the process of a command. Each entry point calls this first, before a thread starts."""
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        # Names of files are bytes, and keys are UTF-8, whatever the locale says. Python reads its arguments before
        # anything can be told to it, so it starts anew. (In the locales C and POSIX it takes UTF-8 by itself.) Not all
        # encodings give back the bytes that they were given: those of the system count.
        try:
            with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - pathlib takes time to import
                given = file.read().split(b"\0")[1:-1]
        except OSError:
            given = [os.fsencode(word) for word in sys.orig_argv[1:]]
        os.execv(sys.executable, [os.fsencode(sys.executable), b"-X", b"utf8", *given])  # noqa: S606

    # Set to nothing is not set: the AWS CLI has it so, and the SDK not everywhere (a region of no letters for roles).
    for name in [name for name, value in os.environ.items() if not value and name.startswith("AWS_")]:
        del os.environ[name]
