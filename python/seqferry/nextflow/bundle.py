"""``PREFIX/bin/aws`` and ``s5cmd`` with all that they need below ``PREFIX``, to be mounted into task containers.

A container may lack Python, and may have another C library (Alpine has no glibc). So the interpreter, the modules that
the shim imports, the engine, the C library and its loader go along; what is left is the kernel, ``/bin/sh`` and the
processor's architecture. Nothing is written there at run time: the folder may be mounted read-only.
"""

from __future__ import annotations

import json
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from seqferry.model.errors import ConfigError
from seqferry.model.frozen import frozen

TOOLS: Final = ("aws", "s5cmd")

_MARK: Final = "# Made by `seqferry nextflow install-cli`"
_HOME: Final = "lib/seqferry"
_COMMAND_SECONDS: Final = 60

_LEFT_OUT: Final = ("_hashlib", "_ssl", "_bz2", "_lzma", "_ctypes", "readline", "_sqlite3")
"""Extension modules that need libraries of several MiB, and that nothing here needs: their importers do without."""

_IMPORTED: Final = (
    "seqferry.nextflow.shim",
    "seqferry.nextflow.aws",
    "seqferry.nextflow.s5cmd",
    "seqferry.settings.config_file",
    # What is imported late: for profiles, failures, pipes, and names of hosts and keys.
    *("configparser", "traceback", "tempfile", "tomllib", "urllib.parse", "zlib"),
    *("encodings.utf_8", "encodings.ascii", "encodings.latin_1", "encodings.idna", "encodings.aliases"),
)

_PROBE: Final = """
import importlib, json, sys
left_out, wanted = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(left_out))
for name in wanted:
    importlib.import_module(name)
print(json.dumps({name: module.__file__ for name, module in sys.modules.items() if getattr(module, "__file__", None)}))
"""

_BOOT: Final = (
    "abc",
    "codecs",
    "encodings",
    "io",
    "os",
    "posixpath",
    "genericpath",
    "stat",
    "_collections_abc",
    "site",
)
"""Modules that the interpreter itself imports, some of them frozen into it."""

_OF_NAMES: Final = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that the C library loads to resolve the names of hosts; part of itself since glibc 2.34."""

_SCRIPT: Final = """#!/bin/sh
{mark}: seqferry {version} in place of {tool}. Needs nothing of its surroundings but /bin/sh.
self=$0
while [ -L "$self" ]; do
  next=$(readlink "$self")
  case $next in /*) self=$next ;; *) self=${{self%/*}}/$next ;; esac
done
case $self in */*) ;; *) self=./$self ;; esac
home=${{self%/*}}/../{home}
unset PYTHONPATH PYTHONSTARTUP PYTHONWARNINGS PYTHONPLATLIBDIR PYTHONINSPECT PYTHONUNBUFFERED PYTHONSAFEPATH
export PYTHONHOME="$home" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1
if [ -z "$SSL_CERT_FILE$SSL_CERT_DIR" ] && [ -f "$home/ca.pem" ] && [ ! -e /etc/ssl/certs/ca-certificates.crt ] &&
  [ ! -e /etc/pki/tls/certs/ca-bundle.crt ] && [ ! -e /etc/ssl/cert.pem ] && [ ! -e /etc/ssl/ca-bundle.pem ]; then
  export SSL_CERT_FILE="$home/ca.pem"
fi
exec "$home/ld.so" --library-path "$home/so" "$home/python3" -S -P -X utf8 -c \\
  'from seqferry.nextflow.shim import main; main("{tool}")' "$@"
"""


@frozen
class InstalledBundle:
    """Result of ``install``: the commands that were made, and the size of all files in bytes."""

    commands: tuple[Path, ...]
    bytes: int


def install(prefix: Path, version: str) -> InstalledBundle:
    """Make the commands below ``prefix``, in place of those that an earlier call made.

    Raises:
        ConfigError: the bundle cannot be made on this machine, or another program's command is there.
    """
    prefix = prefix.absolute()
    commands = tuple(prefix / "bin" / tool for tool in TOOLS)
    for command in commands:
        if command.exists() and not _is_ours(command):
            raise ConfigError(f"{command} is another program, which is not replaced; give a folder of its own.")
    home = prefix / _HOME
    try:
        for folder in (home.parent, prefix / "bin"):
            folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".seqferry-", dir=home.parent))
        try:
            made.chmod(0o755)
            _fill(made)
            _replace(made, home)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        for tool, command in zip(TOOLS, commands, strict=True):
            _write_script(command, tool, version)
    except OSError as why:
        raise ConfigError(f"Cannot write below {prefix}: {why.strerror or why}. Choose another folder.") from None
    _check(commands[0])
    return InstalledBundle(commands, sum(path.lstat().st_size for path in home.rglob("*")))


def _is_ours(command: Path) -> bool:
    try:
        return _MARK in command.read_text(encoding="utf-8", errors="replace")[:1000]
    except OSError:
        return False


def _fill(home: Path) -> None:
    interpreter = Path(os.path.realpath(sys.executable))
    python = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    dynamic = python / "lib-dynload"
    dynamic.mkdir(parents=True)
    binaries = [_copy(interpreter, home / "python3")]
    for name, file in _modules().items():
        if file.suffix == ".so":
            folder = python / Path(*name.split(".")[:-1]) if "." in name else dynamic
            folder.mkdir(parents=True, exist_ok=True)
            binaries.append(_strip(_copy(file, folder / file.name)))
        elif file.suffix == ".py":
            _compile(name, file, python)
    loader = _add_libraries(home, [interpreter, *binaries])
    _copy(loader, home / "ld.so")
    for place in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"):
        if Path(place).is_file():
            _copy(Path(place), home / "ca.pem")
            break


def _modules() -> dict[str, Path]:
    """The file of each module that the shim imports, found by importing them in a process of their own."""
    wanted = [*_IMPORTED, *_BOOT]
    answer = _output([sys.executable, "-c", _PROBE, json.dumps([_LEFT_OUT, wanted])], "find the modules of the shim")
    found: dict[str, str] = json.loads(answer)
    found.pop("__main__", None)
    standard = sysconfig.get_path("stdlib")
    ours = str(Path(__file__).parents[1])
    # Whatever else a site loads at the start of each interpreter is no part of it.
    kept = {
        name: Path(file)
        for name, file in found.items()
        if file.startswith((standard, ours)) and "site-packages" not in file.removeprefix(ours)
    }
    return {name: file for name, file in kept.items() if file.suffix in (".py", ".so")}


def _compile(name: str, file: Path, python: Path) -> None:
    """Store a module as bytecode alone: Python compares no time stamps then, which not every way of copying keeps."""
    parts = name.split(".")
    target = (
        python.joinpath(*parts, "__init__.pyc")
        if file.name == "__init__.py"
        else python.joinpath(*parts).with_suffix(".pyc")
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(file), str(target), name, doraise=True, invalidation_mode=mode)


def _add_libraries(home: Path, binaries: Iterable[Path]) -> Path:
    """Copy the shared libraries of the binaries; returns the loader."""
    folder = home / "so"
    folder.mkdir()
    found: dict[str, Path] = {}
    loader: Path | None = None
    for binary in binaries:
        for line in _output(["ldd", str(binary)], "find shared libraries").splitlines():
            match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
            if match is None:
                continue
            path = Path(match[2])
            if path.name.startswith("ld-"):
                loader = path
            else:
                found[match[1] or path.name] = path
    if loader is None or "libc.so.6" not in found:
        raise ConfigError("The bundle is made on Linux with glibc (an Alpine container can use it, not make it).")
    beside = found["libc.so.6"].parent
    found.update({name: beside / name for name in _OF_NAMES if (beside / name).exists()})
    for name, path in found.items():
        _copy(path, folder / name)
    return loader


def _copy(source: Path, target: Path) -> Path:
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & stat.S_IXUSR or ".so" in target.name else 0o644)
    return target


def _strip(binary: Path) -> Path:
    """Remove the symbols if ``strip`` is installed: an engine built for development has 100 MiB."""
    if (strip := shutil.which("strip")) is not None:
        subprocess.run([strip, "--strip-unneeded", str(binary)], capture_output=True, check=False)  # noqa: S603
    return binary


def _replace(made: Path, home: Path) -> None:
    old = made.with_name(f"{made.name}.old")
    if home.exists():
        home.rename(old)
    made.rename(home)
    shutil.rmtree(old, ignore_errors=True)


def _write_script(command: Path, tool: str, version: str) -> None:
    text = _SCRIPT.format(mark=_MARK, version=version, tool=tool, home=_HOME)
    with tempfile.NamedTemporaryFile("w", dir=command.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).chmod(0o755)
    Path(file.name).rename(command)


def _check(command: Path) -> None:
    """See that it runs, with nothing of this process's environment."""
    _output([str(command), "--version"], f"run {command}", environment={})


def _output(command: list[str], what: str, environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=True, timeout=_COMMAND_SECONDS, env=environment
        )
    except (OSError, subprocess.SubprocessError) as why:
        said = getattr(why, "stderr", None)
        last = said.strip().splitlines()[-1] if isinstance(said, str) and said.strip() else str(why)
        raise ConfigError(f"The bundle cannot be made: {what}: {last}.") from None
    return done.stdout
