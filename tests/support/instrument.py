"""A helper program of ours that runs beside a test: says where it listens, and ends with its standard input."""

from __future__ import annotations

import json
import subprocess
from typing import Self

from support.run import find_tool


class Instrument:
    """A running one. A context manager: it ends with the block, or with this process."""

    def __init__(self, name: str, *arguments: str) -> None:
        """Starts the binary ``name``.

        Raises:
            MissingToolError: the program was not built.
            RuntimeError: the program ended at once; its output is on standard error.
        """
        binary = find_tool(name, variable=f"SEQFERRY_{name.upper()}", hint="run `make tools`")
        self._process = subprocess.Popen([binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} ended with status {self._process.wait()}")
        self.endpoint_url: str = json.loads(line)["endpoint_url"]
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
