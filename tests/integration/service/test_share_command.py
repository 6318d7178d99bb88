"""``seqferry share`` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from control import command
from ended import ended

from seqferry.service import share_links
from seqferry.service.service import Service
from support.processes import RunningProcess, seqferry


def test_a_link_is_made_listed_and_revoked(own: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[server]\npublic_url = "https://ferry.example.org/"\n')
    monkeypatch.setenv("SEQFERRY_CONFIG", str(config))
    of = ended(own)

    made = command(own, "share", of[:8], "--expires", "30d")
    labelled = json.loads(command(own, "share", "--label", "project=X", "--json").stdout)
    listed = command(own, "share", "--list")
    of_transfer = command(own, "share", of[:8], "--list", "--json")
    revoked = command(own, "share", "--revoke", labelled["link"])

    assert made.returncode == 0, made.stderr
    token = made.stdout.strip().removeprefix("https://ferry.example.org/#/d/")
    opened = share_links.find_by_token(own, token)
    assert opened is not None
    assert opened.transfer_id == of
    assert f"seqferry share --revoke {opened.id}" in made.stderr
    assert "Other machines cannot open" not in made.stderr
    assert round(opened.expires_at - opened.created_at) == 30 * 86400
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [
        [labelled["link"], "active"],
        [opened.id, "active"],
    ]
    assert token not in listed.stdout
    assert [json.loads(line)["link"] for line in of_transfer.stdout.splitlines()] == [opened.id]
    assert revoked.returncode == 0
    assert [one.state for one in share_links.list_links(own)] == ["revoked", "active"]


def test_the_address_is_that_of_the_running_server(own: Service) -> None:
    of = ended(own)
    without = command(own, "share", of)
    line = [str(seqferry()), "serve", "--port", "0", "--state-dir", str(own.settings.state_dir)]
    with RunningProcess(line, is_preloaded=True) as server:
        address = server.wait_for_line("http://").strip()
        made = command(own, "share", of)

    assert without.returncode == 2
    assert "public_url" in without.stderr
    assert made.stdout.startswith(f"{address}/#/d/"), made.stderr
    assert "Other machines cannot open this address" in made.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("{of}", "--label", "project=X"),
        ("--label", "project=X", "--list"),
        ("{of}", "--revoke", "0123456789ab"),
        ("--list", "--revoke", "0123456789ab"),
        ("--revoke", "0123456789ab"),
        ("{of}", "--expires", "400d"),
        ("{of}", "--expires", "soon"),
        ("nothing-of-this-name",),
    ],
)
def test_what_makes_no_sense_is_refused_and_makes_no_link(own: Service, words: tuple[str, ...]) -> None:
    of = ended(own)

    refused = command(own, "share", *(word.format(of=of) for word in words))

    assert refused.returncode in (1, 2, 4), refused
    assert "Traceback" not in refused.stderr
    assert share_links.list_links(own) == []
