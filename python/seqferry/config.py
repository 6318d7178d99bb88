"""Settings: read once at the entry point, then passed down. The only reader of the environment.

Every field has an environment twin ``SEQFERRY_<FIELD>``. ``AWS_*`` variables are not ours: the engine honours them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from seqferry.errors import ConfigError

MAX_REQUESTS: Final = 512
"""Requests in flight. One process then reaches what S3 allows per prefix at its usual latencies; more only queues."""

MEMORY: Final = 256 * 1024 * 1024
"""Bytes of buffers: fits the smallest machines that such jobs are run on."""

_UNITS: Final = {"": 1, "b": 1}
_UNITS.update({f"{letter}{suffix}": 1000**power for power, letter in enumerate("kmgt", 1) for suffix in ("b",)})
_UNITS.update({f"{letter}{suffix}": 1024**power for power, letter in enumerate("kmgt", 1) for suffix in ("", "ib")})
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")

_POSTGRES_SCHEMES: Final = ("postgres", "postgresql", "postgresql+psycopg")


def parse_size(text: str) -> int:
    """Bytes of ``8388608``, ``8M``, ``8MiB`` (powers of 1024) or ``8MB`` (powers of 1000).

    Raises:
        ValueError: for anything else.
    """
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"'{text}' is not a size; write for example 8388608, 8MiB or 8MB")
    return round(float(match[1]) * unit)


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a process.

    Attributes:
        state_dir: where SQLite, locks and logs live; absolute.
        database_url: SQLAlchemy URL of a Postgres (psycopg driver), None for SQLite in ``state_dir``. May hold a
            password, so it is never printed: use ``database_label``.
        max_requests: S3 requests in flight.
        memory: bytes of buffers.
        max_bandwidth: bytes per second, None for no limit.
        token: what HTTP clients must present as bearer; None for no check.
    """

    state_dir: Path
    database_url: str | None = field(default=None, repr=False)
    max_requests: int = MAX_REQUESTS
    memory: int = MEMORY
    max_bandwidth: int | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def uses_sqlite(self) -> bool:
        return self.database_url is None

    @property
    def sqlite_path(self) -> Path:
        return self.state_dir / "seqferry.sqlite"

    @property
    def database_label(self) -> str:
        """The database for messages: without user name and password."""
        if self.database_url is None:
            return str(self.sqlite_path)
        rest = self.database_url.split("://", 1)[1].split("?", 1)[0]
        return f"postgresql://{rest.rsplit('@', 1)[-1]}"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Read the environment; ``overrides`` (by field name, None means not given) win over it.

        Raises:
            ConfigError: a value makes no sense.
        """
        env = os.environ if environ is None else environ

        def value(name: str, parse: Callable[[str], Any], default: Any) -> Any:
            given = overrides.pop(name, None)
            if given is None:
                text = env.get(f"SEQFERRY_{name.upper()}", "")
                if text == "":
                    return default
                given = text
            if not isinstance(given, str):
                return given
            try:
                return parse(given)
            except ValueError as why:
                raise ConfigError(f"SEQFERRY_{name.upper()}: {why}.") from None

        settings = cls(
            state_dir=Path(value("state_dir", str, _default_state_dir(env))).expanduser().absolute(),
            database_url=value("database_url", _postgres_url, None),
            max_requests=value("max_requests", _count, MAX_REQUESTS),
            memory=value("memory", parse_size, MEMORY),
            max_bandwidth=value("max_bandwidth", parse_size, None),
            token=value("token", str, None),
        )
        if overrides:
            raise TypeError(f"unknown settings: {', '.join(sorted(overrides))}")
        _check(settings)
        return settings

    def prepare_state_dir(self) -> None:
        """Create the state folder, for its owner only, and see that it can be written.

        Raises:
            ConfigError: it cannot.
        """
        try:
            self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.state_dir):
                pass
        except OSError as why:
            raise ConfigError(
                f"Cannot write to the state folder {self.state_dir}: {why.strerror or why}. "
                "Give a folder that you may write to with --state-dir or SEQFERRY_STATE_DIR."
            ) from None


def _default_state_dir(env: Mapping[str, str]) -> str:
    base = env.get("XDG_STATE_HOME", "")
    # The XDG rules say that a relative path there is to be ignored.
    return f"{base}/seqferry" if base.startswith("/") else "~/.local/state/seqferry"


def _count(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"'{text}' is not a whole number")
    return int(text)


def _postgres_url(text: str) -> str:
    scheme, separator, rest = text.strip().partition("://")
    # The text itself may hold a password, so it is not shown.
    if not separator or scheme not in _POSTGRES_SCHEMES or not rest:
        raise ValueError("not a PostgreSQL address; write postgresql://user@host:5432/database, or unset it for SQLite")
    return f"postgresql+psycopg://{rest}"


def _check(settings: Settings) -> None:
    if settings.max_requests < 1:
        raise ConfigError("SEQFERRY_MAX_REQUESTS: at least 1 request must be allowed in flight.")
    if settings.memory < 16 * 1024 * 1024:
        raise ConfigError("SEQFERRY_MEMORY: at least 16MiB are needed for buffers.")
    if settings.max_bandwidth is not None and settings.max_bandwidth < 1:
        raise ConfigError("SEQFERRY_MAX_BANDWIDTH: must be at least 1 byte per second; unset it for no limit.")
