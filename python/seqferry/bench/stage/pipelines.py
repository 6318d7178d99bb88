"""Ways in which a task of a Nextflow pipeline gets the data: staged by Nextflow, or by its ``beforeScript``.

A run is a pipeline of one task that counts its files. Starting Nextflow counts, as it does for users.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from seqferry.bench.machine import installed_version
from seqferry.bench.stage.staging import ARCHIVE, Staging, StagingMethod

_AMAZON: Final = "nf-amazon"
_OURS: Final = f"nf-seqferry@{installed_version()}"
_KEPT: Final = (
    "NXF_HOME",
    "NXF_VER",
    "NXF_OFFLINE",
    "NXF_LIB",
    "NXF_OPTS",
    "NXF_JVM_ARGS",
    "NXF_JAVA_HOME",
    "JAVA_HOME",
)
"""Variables of the user's that say which Nextflow and which Java is run."""
# The task says where its files are, and they are compared after the measured time.
_PIPELINE: Final = """
process TASK {{
    executor 'local'
    {directive}
    input: {input}
    output: stdout
    script: {script}
}}
workflow {{ TASK({channel}) | view }}
"""
_COUNT: Final = "find -L data -type f | wc -l"


def _quote(text: str) -> str:
    """A literal of Groovy."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _files(each: Staging, *, plug: str, directive: str, given: str, channel: str, script: str) -> dict[str, str]:
    where = shlex.quote(str(each.arrived))
    command = f'set -e; {script}{_COUNT}; rmdir {where}; ln -s "$(readlink -f data)" {where}'
    client = "client { s3PathStyleAccess = true }"
    if each.endpoint_url:
        client = f"client {{ endpoint = {_quote(each.endpoint_url)}; s3PathStyleAccess = true }}"
    plugins = f"plugins {{ id {_quote(plug)} }}\n" if plug else ""
    pipeline = _PIPELINE.format(directive=directive, input=given, script=_quote(command), channel=channel)
    return {
        "main.nf": pipeline,
        "nextflow.config": f"{plugins}aws {{ region = {_quote(each.region)}; {client} }}\n",
        # The plugin takes one program, and ours may be a module of Python's.
        "seqferry": f'#!/bin/sh\nexec {each.commands["seqferry"]} "$@"\n',
    }


def _stage_files(each: Staging, *, plug: str) -> dict[str, str]:
    data = f"file({_quote(each.data.rstrip('/'))})"
    return _files(each, plug=plug, directive="", given="path 'data'", channel=data, script="")


def _unpack_archive(each: Staging) -> dict[str, str]:
    archive = f"file({_quote(each.archive_folder + ARCHIVE)})"
    script = "mkdir data; tar -xf staged.tar -C data; "
    return _files(each, plug=_AMAZON, directive="", given="path 'staged.tar'", channel=archive, script=script)


def _before(each: Staging, *, command: Callable[[Staging], str]) -> dict[str, str]:
    fetched = f"set -o pipefail; mkdir data; {command(each)}"
    before = f"beforeScript {_quote(fetched)}"
    return _files(each, plug="", directive=before, given="val one", channel="Channel.of(1)", script="")


def _pipe(each: Staging) -> str:
    return f"{each.aws(each.archive_folder + ARCHIVE, '-')} | tar -xf - -C data"


def _unpack(each: Staging) -> str:
    return each.own("unpack", each.archive_folder + ARCHIVE, "data/", "--quiet")


def _environment(each: Staging, *, with_plugin: bool = False) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    home = {"NXF_HOME": str(Path.home() / ".nextflow")}
    own = {"NXF_ANSI_LOG": "false", "NXF_DISABLE_CHECK_LATEST": "true", "SEQFERRY_COMMAND": "./seqferry"}
    return {**home, **kept, **own, **({"NXF_PLUGINS_DIR": str(each.plugins)} if with_plugin else {})}


def _run(_each: Staging) -> str:
    # Capital -C: no settings of the user's own.
    return "nextflow -C nextflow.config run main.nf -work-dir work"


def _way(
    name: str,
    what: str,
    files: Callable[[Staging], dict[str, str]],
    *tools: str,
    with_archive: bool = False,
    with_plugin: bool = False,
) -> StagingMethod:
    return StagingMethod(
        name,
        what,
        "task",
        _run,
        ("nextflow", *tools),
        with_archive=with_archive,
        with_plugin=with_plugin,
        keeps_archive=files is _unpack_archive,
        files=files,
        environment=partial(_environment, with_plugin=with_plugin),
    )


PIPELINES: Final = (
    _way("nextflow", "Nextflow with nf-amazon, a folder", partial(_stage_files, plug=_AMAZON)),
    _way(
        "nextflow-tar",
        "Nextflow with nf-amazon, one tar, tar -x in the script",
        _unpack_archive,
        "tar",
        with_archive=True,
    ),
    _way(
        "nextflow-pipe",
        "Nextflow, beforeScript aws s3 cp TAR - | tar -x",
        partial(_before, command=_pipe),
        "aws",
        "tar",
        with_archive=True,
    ),
    _way(
        "nextflow-seqferry", "Nextflow with nf-seqferry, a folder", partial(_stage_files, plug=_OURS), with_plugin=True
    ),
    _way(
        "nextflow-unpack",
        "Nextflow, beforeScript seqferry unpack TAR",
        partial(_before, command=_unpack),
        "seqferry",
        with_archive=True,
    ),
)
STANDARD: Final = "nextflow"
"""The method that savings in a task are compared with, if it was measured."""
