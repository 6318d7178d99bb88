"""Settings: read once at the entry point, then passed down. The only reader of the environment and of the file.

Every field has an environment twin ``SEQFERRY_<FIELD>``. ``AWS_*`` variables are not ours: the engine honours them.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.models import MAX_ATTEMPTS
from seqferry.model.option_groups import MAX_REQUEST_RATE
from seqferry.places import home, paths, private_files
from seqferry.settings import audit_key
from seqferry.settings.channels import Notices
from seqferry.settings.logs import LogFormat, parse_format
from seqferry.settings.policy import Policy
from seqferry.settings.sizes import NO_LIMIT, Bandwidth, parse_size
from seqferry.settings.values import (
    LockMode,
    anchor_place,
    database_label,
    endpoint_url,
    lock_mode,
    parse_address,
    postgres_address,
    retention,
    whole_number,
)

if TYPE_CHECKING:
    from sqlalchemy import URL

    from seqferry.settings.place_limits import PlaceLimit
    from seqferry.settings.shares import Share

log: Final = logging.getLogger("seqferry.config")

DATABASE_CONNECTIONS: Final = 8
"""Connections of a process to Postgres: 12 processes fit into the 100 that a server has by default."""

LEAST_DATABASE_CONNECTIONS: Final = 4
MOST_DATABASE_CONNECTIONS: Final = 100

MAX_REQUESTS: Final = 10_000
"""Requests in flight at most. S3 takes 3,500 writes per second and prefix, and a part copy of 128 MiB takes 2.4 s:
8,500 in flight, and some room. How many are of use below that is found while working (docs/develop/governor.md)."""

MOST_REQUESTS: Final = 65_535
"""Each request in flight holds a connection, and a machine has no more ports than this."""

MOST_WORKERS: Final = 1000
"""Largest number of workers for an autoscaler: each has a row, reports and heartbeats in one database."""

MOST_DRAIN_MINUTES: Final = 7 * 24 * 60

_MIB: Final = 1024 * 1024


_NO_STATE_DIR: Final = Path("/nonexistent/.local/state/seqferry")
"""Stands for the state folder of a user without a home; Debian gives such users this home."""

_HOST_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_memory(count: int | None = None) -> int:
    """Bytes of buffers: 48 MiB for each core, at least 96 and at most 256 MiB.

    Six parts of 8 MiB keep a core busy; more than that makes the process larger and no faster
    (docs/develop/performance.md).
    """
    return min(max(48 * (count or cores()), 96), 256) * _MIB


@frozen
class Settings:
    """Settings of a process.

    Attributes:
        state_dir: where SQLite, locks and logs live; absolute.
        database_url: SQLAlchemy URL of a Postgres (psycopg driver), None for SQLite in ``state_dir``. May hold a
            password, so it is never printed: use ``database_label``.
        database_direct_url: the same database past a pooler: for what a pooler in transaction mode cannot do.
        database_connections: of this process to Postgres, at most.
        max_requests: S3 requests in flight.
        memory: bytes of buffers.
        attempts: attempts of each request, the first included; None: as the AWS settings say.
        max_bandwidth: bytes per second that pass through this process.
        tpslimit: requests started per second; None: no limit. Recorded with the transfers that are submitted here.
        cache: a folder that keeps blocks of what was downloaded, up to ``max_cache_size`` bytes; absolute.
        trace: ``stderr`` or the file that spans of the engine are written to, None for neither.
        host_name: of this machine, in the record and for local folders; it stays when the machine is renamed.
        folders: of this machine that its workers serve, where several machines work (PostgreSQL); absolute.
        shared_folders: that many machines have mounted at the same path, and serve.
        slot: number of a worker among those that ``seqferry workers scale`` starts; from the environment.
        autoscale_min, autoscale_max: limits of the number of workers that is reported to an autoscaler; None: as
            stored in the database.
        autoscale_drain_minutes: time in which these workers are to do the open work; None: as stored in the database.
        token: one that HTTP clients may present besides those of the state folder.
        policy: what clients of a server may ask it for. From the configuration file only, as the next.
        audit_key: the file of keys of the audit record; None: the record is kept without a key.
        audit_anchor: where heads of the ledger are written, ``s3://bucket/prefix``; None: nowhere.
        audit_endpoint_url: of that place, with ``audit_region`` and ``audit_profile``; None: as for transfers.
        audit_retention: how long anchors are locked, as ``10y``; None: as the bucket locks by default.
        audit_lock_mode: how.
        log_format: of the log of processes that stay.
        trusted_proxies: addresses and networks of proxies that are believed about the address of a client.
        public_url: address at which people reach the server's page, as behind a proxy; None: where it listens.
        config_file: the configuration file that was read, None if there is none.
        notices: channels of notices, from the configuration file only. Their URLs hold secrets.
        shares: of the gateway, from the configuration file only.
        place_limits: over all workers, from the configuration file only.
        origins: where each value comes from that the environment may give: ``option``, the name of its variable, the
            file and the line, or ``default``.
    """

    state_dir: Path
    database_url: str | None = field(default=None, repr=False)
    database_direct_url: str | None = field(default=None, repr=False)
    database_connections: int = DATABASE_CONNECTIONS
    max_requests: int = MAX_REQUESTS
    memory: int = field(default_factory=default_memory)
    attempts: int | None = None
    max_bandwidth: Bandwidth = NO_LIMIT
    tpslimit: int | None = None
    cache: Path | None = None
    max_cache_size: int | None = None
    trace: str | None = None
    log_format: LogFormat = "text"
    host_name: str = field(default_factory=socket.gethostname)
    folders: tuple[str, ...] = ()
    shared_folders: tuple[str, ...] = ()
    slot: int | None = None
    autoscale_min: int | None = None
    autoscale_max: int | None = None
    autoscale_drain_minutes: int | None = None
    token: str | None = field(default=None, repr=False)
    audit_key: Path | None = None
    audit_anchor: str | None = None
    audit_endpoint_url: str | None = None
    audit_region: str | None = None
    audit_profile: str | None = None
    audit_retention: str | None = None
    audit_lock_mode: LockMode = "COMPLIANCE"
    policy: Policy = field(default_factory=Policy)
    trusted_proxies: tuple[str, ...] = ()
    public_url: str | None = None
    config_file: Path | None = None
    notices: Notices = field(default_factory=Notices, repr=False)
    shares: tuple[Share, ...] = ()
    place_limits: tuple[PlaceLimit, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)

    @property
    def uses_sqlite(self) -> bool:
        return self.database_url is None

    @property
    def sqlite_path(self) -> Path:
        return self.state_dir / "seqferry.sqlite"

    @property
    def database_label(self) -> str:
        """The database for messages: host, port and name, never a user name, a password or an option."""
        return str(self.sqlite_path) if self.database_url is None else database_label(self.postgres_url)

    @property
    def direct_label(self) -> str | None:
        """``database_direct_url`` for messages, as ``database_label``."""
        return None if self.database_direct_url is None else database_label(self.direct_url)

    def postgres_url(self) -> URL:
        """``database_url`` in its parts.

        Raises:
            UsageError: the URL cannot be parsed. The error shows no part of it, since any may be of the password.
        """
        assert self.database_url is not None
        return parse_address(self.database_url, "SEQFERRY_DATABASE_URL")

    def direct_url(self) -> URL | None:
        """``database_direct_url`` in its parts, None when it is not set.

        Raises:
            UsageError: as ``postgres_url``.
        """
        given = self.database_direct_url
        return None if given is None else parse_address(given, "SEQFERRY_DATABASE_DIRECT_URL")

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, *, with_tables: bool = True, **overrides: Any) -> Settings:
        """Read environment and configuration file; ``overrides`` (by field name, None and "" mean not given) win.

        Args: ``with_tables``: of the file. A short command obeys none of them, and need not wait for pydantic.

        Raises:
            UsageError: a value is not valid.
        """
        env = os.environ if environ is None else environ
        path, written, tables = _from_file(env, with_tables=with_tables)
        origins: dict[str, str] = {}
        folder = partial(home.expand, env=env)

        def value(name: str, parse: Callable[[str], Any], default: Any) -> Any:
            variable = f"SEQFERRY_{name.upper()}"
            given = overrides.pop(name, None)
            if given is not None and given != "":
                # Options take their variables by themselves.
                origins[name] = variable if str(given) == env.get(variable) else "option"
                where = variable
            elif (given := env.get(variable, "").rstrip("\r\n")) != "":  # the end of a file that it was read from
                where = origins[name] = variable
            elif name in written:
                line, given = written[name]
                where = origins[name] = f"{path}, line {line}"
            else:
                origins[name] = "default"
                return default
            if not isinstance(given, str):
                return given
            try:
                return parse(given)
            except ValueError as why:
                raise UsageError(f"{where}: {why}.") from None

        settings = cls(
            state_dir=value("state_dir", folder, None) or _default_state_dir(env),
            database_url=value("database_url", postgres_address, None),
            database_direct_url=value("database_direct_url", postgres_address, None),
            database_connections=value("database_connections", whole_number, DATABASE_CONNECTIONS),
            max_requests=value("max_requests", whole_number, MAX_REQUESTS),
            memory=value("memory", parse_size, default_memory()),
            attempts=value("attempts", whole_number, None),
            max_bandwidth=value("max_bandwidth", Bandwidth.parse, NO_LIMIT),
            tpslimit=value("tpslimit", whole_number, None),
            cache=value("cache", folder, None),
            max_cache_size=value("max_cache_size", parse_size, None),
            trace=value("trace", lambda text: text if text == "stderr" else str(folder(text)), None),
            log_format=value("log_format", parse_format, "text"),
            host_name=value("host_name", _host_name, None) or socket.gethostname(),
            folders=value("folders", _folders, ()),
            shared_folders=value("shared_folders", _folders, ()),
            slot=value("slot", whole_number, None),
            autoscale_min=value("autoscale_min", whole_number, None),
            autoscale_max=value("autoscale_max", whole_number, None),
            autoscale_drain_minutes=value("autoscale_drain_minutes", whole_number, None),
            token=value("token", str, None),
            audit_key=value("audit_key", folder, audit_key.default_path(env)),
            audit_anchor=value("audit_anchor", anchor_place, None),
            audit_endpoint_url=value("audit_endpoint_url", endpoint_url, None),
            audit_region=value("audit_region", str, None),
            audit_profile=value("audit_profile", str, None),
            audit_retention=value("audit_retention", retention, None),
            audit_lock_mode=value("audit_lock_mode", lock_mode, "COMPLIANCE"),
            config_file=path,
            origins=origins,
            **tables,
        )
        if overrides:
            raise TypeError(f"unknown settings: {', '.join(sorted(overrides))}")
        _check(settings)
        return settings

    def working_dir(self) -> Path | None:
        """Folder for what a command keeps no longer than it runs, and for its log: the state folder where it can be.

        A command that records nothing does without a state folder where the usual one cannot be written, as with a
        home that is read-only: its folder is then a private one among temporary files. None where there is none.

        Raises:
            ConfigError: a state folder was named, and it cannot be written.
        """
        try:
            self.prepare_state_dir(database=False)
        except ConfigError:
            if self.origins.get("state_dir", "default") != "default":
                raise
            return private_files.temporary_folder()
        return self.state_dir

    def without_records(self) -> Settings:
        """Settings of a command that puts nothing on record in the state folder: with ``working_dir`` in its place.

        A folder that was named and is there, but cannot be written, is replaced as well: nothing would be put there.

        Raises:
            ConfigError: no folder can be written, or the one that was named is not there.
        """
        replaced = self._is_read_only()
        folder = private_files.temporary_folder() if replaced else self.working_dir()
        if folder is None:
            self.prepare_state_dir()  # its error says why
        return self if folder in (None, self.state_dir) else replace(self, state_dir=folder)

    def prepare_reading(self) -> bool:
        """Do what ``prepare_state_dir`` does, where the folder can be written; True where it can only be read.

        Raises:
            ConfigError: as ``prepare_state_dir``, unless a database is there to be read (SQLite).
        """
        _require_text(self.state_dir, "The state folder", "--state-dir or SEQFERRY_STATE_DIR")
        is_read_only = self.uses_sqlite and self._is_read_only() and os.path.lexists(self.sqlite_path)
        if not is_read_only or private_files.find_planted(self.state_dir) is not None:
            self.prepare_state_dir()  # its error says what is in the way
            return False
        return True

    def _is_read_only(self) -> bool:
        """True for a state folder that is there and cannot be written, as on a read-only mount."""
        return private_files.is_folder(self.state_dir) and not os.access(
            self.state_dir, os.W_OK | os.X_OK, effective_ids=True
        )

    def prepare_state_dir(self, *, database: bool = True) -> None:
        """Create the state folder and its database file, for their owner only, and see that it can be written.

        Files of ours that others may read are narrowed, with one line in the log. A folder that was there is left as
        it is.

        Raises:
            ConfigError: the folder cannot be created or written, or holds files of another user.
        """
        _require_text(self.state_dir, "The state folder", "--state-dir or SEQFERRY_STATE_DIR")
        if self.state_dir == _NO_STATE_DIR:
            raise ConfigError(
                f"There is no state folder: user {os.getuid()} has no home folder here, and HOME names none that is "
                "there. Name a folder that you may write to with --state-dir or SEQFERRY_STATE_DIR."
            )
        try:
            if self.uses_sqlite and not self.sqlite_path.exists():
                paths.make_folders(str(self.state_dir), mode=0o700)
            else:
                self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (foreign := private_files.find_foreign_owner(self.state_dir)) is not None:
                path, owner = foreign
                raise ConfigError(
                    f"Cannot use the state folder {self.state_dir}: {path} belongs to the user {owner}, who could have "
                    "transfers done with your credentials. Give a folder of your own with --state-dir or "
                    "SEQFERRY_STATE_DIR."
                )
            if (planted := private_files.find_planted(self.state_dir)) is not None:
                raise ConfigError(
                    f"Cannot use the state folder {self.state_dir}: {planted} is a link, or no plain file with one "
                    "name, and what is written to it would go elsewhere. Remove it, or give another folder with "
                    "--state-dir or SEQFERRY_STATE_DIR."
                )
            narrowed = private_files.restrict_permissions(self.state_dir)
            if self.uses_sqlite and database:
                private_files.create(self.sqlite_path)
            with tempfile.TemporaryFile(dir=self.state_dir):
                pass
        except OSError as why:
            at = f" ({why.filename})" if why.errno == errno.EPERM and why.filename else ""
            raise ConfigError(
                f"Cannot write to the state folder {self.state_dir}{at}: {why.strerror or why}. "
                "Give a folder that you may write to with --state-dir or SEQFERRY_STATE_DIR."
            ) from None
        if narrowed:
            log.warning(
                "Other users could open %s in the state folder %s; now only its owner can. The folder itself is left "
                "as it is (mode %03o).",
                " and ".join(narrowed),
                self.state_dir,
                self.state_dir.stat().st_mode & 0o777,
            )


def _host_name(text: str) -> str:
    if re.fullmatch(_HOST_NAME, text) is None:
        raise ValueError(f"'{text[:80]}' is not the name of a host; use letters, digits, dots and hyphens")
    return text


def _folders(text: str) -> tuple[str, ...]:
    """Folders as in PATH: absolute, with colons between them."""
    found = tuple(dict.fromkeys(os.path.normpath(one) for one in text.split(":") if one))
    for one in found:
        if not os.path.isabs(one) or "\0" in one:  # noqa: PTH117
            raise ValueError(f"'{one}' is not an absolute path; write for example /data/runs:/scratch")
        try:
            one.encode()
        except UnicodeEncodeError:
            raise ValueError("a folder has a name that is not UTF-8") from None
    return found


def _require_text(path: Path, what: str, option: str) -> None:
    """Refuse a path whose bytes are no UTF-8: the database and the engine name files by text.

    Raises:
        ConfigError: the value is not text.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise ConfigError(
            f"{what} {shown} has a name that is not UTF-8, which cannot be used. Rename it, or name another one with "
            f"{option}."
        ) from None


def _default_state_dir(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_STATE_HOME", "")
    # The XDG rules say that a relative path there is to be ignored.
    if base.startswith("/"):
        return Path(base) / "seqferry"
    found = home.folder(env)
    return _NO_STATE_DIR if found is None else Path(found) / ".local" / "state" / "seqferry"


def _from_file(
    env: Mapping[str, str], *, with_tables: bool
) -> tuple[Path | None, Mapping[str, tuple[int, str]], dict[str, Any]]:
    """The file, what it says of settings (each with its line), and the fields that its tables make."""
    named = env.get("SEQFERRY_CONFIG", "")
    base = env.get("XDG_CONFIG_HOME", "")
    own = home.folder(env)
    if named:
        try:
            path = home.expand(named, env)
        except ValueError as why:
            raise UsageError(f"SEQFERRY_CONFIG: {why}.") from None
    elif base.startswith("/"):
        path = Path(base) / "seqferry" / "config.toml"
    elif own is None:
        return None, {}, {}
    else:
        path = Path(own) / ".config" / "seqferry" / "config.toml"
    if not named and _is_absent(path, of_home=not base.startswith("/")):
        return None, {}, {}
    # Imported late: few users have a configuration file.
    from seqferry.settings import config_file

    return path, *config_file.read(path, named=bool(named), with_tables=with_tables)


def _is_absent(path: Path, *, of_home: bool) -> bool:
    """True when nothing has this name. A file that is there and cannot be read is not absent: it may hold a policy.

    Args: ``of_home``: it is below HOME, which may be another user's, as in a container. This user then has no file.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except PermissionError:
        return of_home and home.is_denied_by_other_user(path.parent)
    except OSError:
        return False  # reading it fails alike, and says why
    return False


def _check(settings: Settings) -> None:
    if settings.cache is not None:
        _require_text(settings.cache, "The folder of the cache", "--cache or SEQFERRY_CACHE")
    if settings.trace is not None:
        _require_text(Path(settings.trace), "The trace", "SEQFERRY_TRACE")
    if not LEAST_DATABASE_CONNECTIONS <= settings.database_connections <= MOST_DATABASE_CONNECTIONS:
        raise UsageError(
            f"SEQFERRY_DATABASE_CONNECTIONS: from {LEAST_DATABASE_CONNECTIONS} to {MOST_DATABASE_CONNECTIONS} "
            "connections of a process make sense."
        )
    if settings.database_direct_url is not None and settings.database_url is None:
        raise UsageError("SEQFERRY_DATABASE_DIRECT_URL: it needs SEQFERRY_DATABASE_URL, the address of the pooler.")
    _check_autoscale(settings)
    if settings.max_requests < 1:
        raise UsageError("--max-requests, or SEQFERRY_MAX_REQUESTS: at least 1 request must be allowed in flight.")
    if settings.max_requests > MOST_REQUESTS:
        raise UsageError(
            f"--max-requests, or SEQFERRY_MAX_REQUESTS: at most {MOST_REQUESTS} requests can be in flight."
        )
    if settings.tpslimit is not None and not 1 <= settings.tpslimit <= MAX_REQUEST_RATE:
        raise UsageError(
            f"--tpslimit, or SEQFERRY_TPSLIMIT: from 1 to {MAX_REQUEST_RATE} requests can start per second."
        )
    if settings.attempts is not None and not 1 <= settings.attempts <= MAX_ATTEMPTS:
        raise UsageError(f"--attempts, or SEQFERRY_ATTEMPTS: choose 1 to {MAX_ATTEMPTS} attempts of each request.")
    if settings.memory < 16 * _MIB:
        raise UsageError(
            f"--memory, or SEQFERRY_MEMORY: {settings.memory} bytes are too few for buffers, 16MiB the least."
        )


def _check_autoscale(settings: Settings) -> None:
    least, most, minutes = settings.autoscale_min, settings.autoscale_max, settings.autoscale_drain_minutes
    if least is not None and not 0 <= least <= MOST_WORKERS:
        raise UsageError(f"SEQFERRY_AUTOSCALE_MIN: from 0 to {MOST_WORKERS} workers make sense.")
    if most is not None and not 1 <= most <= MOST_WORKERS:
        raise UsageError(f"SEQFERRY_AUTOSCALE_MAX: from 1 to {MOST_WORKERS} workers make sense.")
    if least is not None and most is not None and least > most:
        raise UsageError(f"SEQFERRY_AUTOSCALE_MIN: {least} workers are more than SEQFERRY_AUTOSCALE_MAX, {most}.")
    if minutes is not None and not 1 <= minutes <= MOST_DRAIN_MINUTES:
        raise UsageError(f"SEQFERRY_AUTOSCALE_DRAIN_MINUTES: from 1 to {MOST_DRAIN_MINUTES} minutes make sense.")
