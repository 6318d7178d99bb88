"""The environment of a command: its names are bytes in any locale, and AWS variables without a value are not set."""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Prepare the process of a command. Each entry point calls this first, before a thread starts."""
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        # Names of files are bytes, and keys are UTF-8, in every locale. Python decodes its arguments before any setting
        # can be made, so it is started again. (In the locales C and POSIX it uses UTF-8 anyway.) The arguments are read
        # as bytes, since not all encodings restore the bytes that they decoded.
        try:
            with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - pathlib takes time to import
                given = file.read().split(b"\0")[1:-1]
        except OSError:
            given = [os.fsencode(word) for word in sys.orig_argv[1:]]
        os.execv(sys.executable, [os.fsencode(sys.executable), b"-X", b"utf8", *given])  # noqa: S606

    # pydantic would read the entry points of every installed package for plugins, of which Seqferry uses none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

    # An empty variable counts as unset, as in the AWS CLI. The SDK does not always do this (an empty region for roles).
    for name in [name for name, value in os.environ.items() if not value and name.startswith("AWS_")]:
        del os.environ[name]
