"""Nextflow as a process: its jars from Maven Central, started without its launcher."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.run import ROOT, MissingToolError, Run

VERSIONS: Final = ("24.10.0", "25.04.4")
_LAUNCHER: Final = ROOT / "integrations" / "nextflow" / "nxf"
_HINT: Final = "run `make nextflow-tools` (Debian: apt-get install maven openjdk-17-jdk-headless)"

_RENDER: Final = """
println new nextflow.executor.BashFunLib().includeCoreFun(true).withMaxParallelTransfers(4)
    .withMaxTransferAttempts(2).withDelayBetweenAttempts(new nextflow.util.Duration('100ms')).render()
"""


def jars(version: str) -> Path:
    """The folder with the jars of this version.

    Raises:
        MissingToolError: it, or Java, is not there.
    """
    folder = ROOT / ".tools" / "nextflow" / version
    if shutil.which("java") is None:
        raise MissingToolError(f"Java is not installed: {_HINT}")
    if not folder.is_dir():
        raise MissingToolError(f"Nextflow {version} is not there: {_HINT}")
    return folder


def bash_functions(run: Run) -> str:
    """What the newest version writes into task wrappers for staging: ``nxf_cp_retry``, ``nxf_parallel``.

    ``nxf_sleep`` and ``nxf_mktemp``, which they call, stand in the template of the wrappers in the same jar.
    """
    folder = jars(VERSIONS[-1])
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", "groovy.ui.GroovyMain", "-e", _RENDER]
    done = subprocess.run(java, check=True, capture_output=True, text=True, timeout=120)
    template = subprocess.run(
        ["unzip", "-p", folder / f"nextflow-{VERSIONS[-1]}.jar", "nextflow/executor/command-run.txt"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    core = "\n".join(_function(template, name) for name in ("nxf_sleep", "nxf_mktemp"))
    return f"{core}\n{done.stdout}"


def _function(template: str, name: str) -> str:
    start = template.index(f"{name}() {{")
    return template[start : template.index("\n}\n", start) + 3]


@dataclass(frozen=True)
class Nextflow:
    """One version, with a home of its own."""

    version: str
    lib: Path
    home: Path

    @classmethod
    def find(cls, version: str, run: Run) -> Nextflow:
        """Raises: MissingToolError when it is not there."""
        home = run.folder / f"nextflow-home-{version}"
        home.mkdir(exist_ok=True)
        return cls(version, jars(version), home)

    def run(
        self, *arguments: str | Path, cwd: Path, environment: Mapping[str, str], deadline: float = 180.0
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end in the folder ``cwd``; what it printed is in the answer, its log in ``.nextflow.log``."""
        env = {**os.environ, "NXF_HOME": str(self.home), "NXF_LIB": str(self.lib), **environment}
        return subprocess.run(
            [_LAUNCHER, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=deadline, check=False
        )
