"""Databases in another encoding than UTF-8, which cannot hold every key, and clients that ask for another."""

from __future__ import annotations

from pathlib import Path

import pytest
from control import settings_for

from seqferry.cli.app import run
from seqferry.model.errors import ConfigError
from seqferry.service.service import Service
from support.postgres import Postgres

_KEY = "é→日"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "WIN1252", "EUC_JP", "MULE_INTERNAL"])
def test_a_database_in_another_encoding_is_refused_in_one_line_with_the_next_step(
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    encoding: str,
) -> None:
    name = postgres.create_database(encoding)
    try:
        with pytest.raises(ConfigError) as refused:
            Service.open(settings_for(tmp_path, postgres.url(name))).close()
        monkeypatch.setenv("SEQFERRY_DATABASE_URL", postgres.url(name))
        monkeypatch.setenv("SEQFERRY_STATE_DIR", str(tmp_path / "state"))
        said: list[str] = []
        for word in ("status", "doctor"):
            assert run([word]) != 0
            said.append("".join(capsys.readouterr()))
    finally:
        postgres.drop_database(name)

    for line in (str(refused.value), *said):
        assert f"{name} has the encoding {encoding}" in " ".join(line.split()), line
        assert "--encoding=UTF8" in line
        assert "Traceback" not in line
        assert "unexpected" not in line
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_clients_that_ask_for_another_encoding_get_utf8(
    postgres: Postgres, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    for url in (migrated_url, f"{migrated_url}?client_encoding={encoding.lower()}"):
        with Service.open(settings_for(tmp_path, url)) as service:
            with service.database.read() as connection:
                assert connection.exec_driver_sql("select %s", (_KEY,)).scalar() == _KEY
            with service.database.direct("test") as listening:
                assert listening.info.encoding == "utf-8"
