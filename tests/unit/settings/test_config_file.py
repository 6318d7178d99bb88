"""The configuration file: what it sets, and how a mistake in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.model.errors import UsageError
from seqferry.settings.config import Settings
from seqferry.settings.policy import Policy


def _loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return Settings.load({"SEQFERRY_CONFIG": str(path)})


def test_it_sets_the_policy_of_the_server(tmp_path: Path) -> None:
    settings = _loaded(
        tmp_path,
        """
        [server]
        endpoints = ["https://s3.example.org", "http://[::1]:9000/s3"]
        profiles = ["lab"]
        read = ["s3://vendor", "s3://lab-*"]
        write = ["s3://ours/run42/", "s3://ours/x/*", "s3://*"]
        trusted_proxies = ["127.0.0.1", "10.0.0.0/8", "::1"]
        public_url = "https://example.org/ferry/"
        """,
    )

    assert settings.policy == Policy(
        endpoints=("https://s3.example.org", "http://[::1]:9000/s3"),
        profiles=("lab",),
        read=("s3://vendor/", "s3://lab-"),
        write=("s3://ours/run42/", "s3://ours/x/", "s3://"),
    )
    assert settings.trusted_proxies == ("127.0.0.1", "10.0.0.0/8", "::1")
    assert settings.public_url == "https://example.org/ferry"


def test_it_lies_where_the_system_keeps_such_files(tmp_path: Path) -> None:
    folder = tmp_path / "seqferry"
    folder.mkdir()
    (folder / "config.toml").write_text('server.profiles = ["lab"]')

    assert Settings.load({"XDG_CONFIG_HOME": str(tmp_path)}).policy.profiles == ("lab",)
    assert Settings.load({"XDG_CONFIG_HOME": str(tmp_path / "none")}).policy == Policy()


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no configuration file"):
        Settings.load({"SEQFERRY_CONFIG": str(tmp_path / "none.toml")})


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "seqferry"
    folder.mkdir()
    (folder / "config.toml").symlink_to(tmp_path / "not-mounted" / "config.toml")

    with pytest.raises(UsageError, match="a link leads to nothing"):
        Settings.load({"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('[server]\nendpoint = ["https://s3.example.org"]', 2, "did you mean 'endpoints'?"),
        ("[server]\n\n# endpoint\ncolour = 1", 4, "known are: endpoints, profiles, read, write, most_schedules"),
        ('\n[serve]\nread = ["s3://a"]', 2, "did you mean 'server'?"),
        ('read = ["s3://a"]', 1, "'read' is not known"),
        ("server = 7", 1, "write [server]"),
        ('[server]\nread = "s3://a"', 2, "a list of texts"),
        ("[server]\nread = [1]", 2, "a list of texts"),
        ('[server]\nprofiles = []\nread = ["vendor"]', 3, "'vendor' is not a bucket or a prefix"),
        ('[server]\nread = ["s3://vendor/key"]', 2, "not a bucket or a prefix"),
        ('[server]\nwrite = ["s3://a*b/"]', 2, "not a bucket or a prefix"),
        ('[server]\nendpoints = ["s3.example.org"]', 2, "not an endpoint URL"),
        ('[server]\nendpoints = ["http://[::1"]', 2, "IPv6"),
        ('[server]\nendpoints = ["https://ada:hunter2@s3.example.org"]', 2, "no credentials"),
        ('[server]\nendpoints = ["http://169.254.169.254"]', 2, "never contacts"),
        ('[server]\ntrusted_proxies = ["*"]', 2, "not an IP address or network"),
        ('[server]\ntrusted_proxies = ["10.0.0.1/8"]', 2, "not an IP address or network"),
        ('[server]\npublic_url = ["https://a"]', 2, "it must be a text"),
        ('[server]\npublic_url = "ferry.example.org"', 2, "not the address of a page"),
        ('[server]\npublic_url = "javascript://a"', 2, "not the address of a page"),
        ('[server]\npublic_url = "https://ada:hunter2@a"', 2, "not the address of a page"),
        ('[server]\npublic_url = "https://a/#/x"', 2, "not the address of a page"),
        ('[server]\npublic_url = "https://[::1"', 2, "IPv6"),
        ("[server\n", 1, "not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_remedy(tmp_path: Path, text: str, line: int, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        _loaded(tmp_path, text)

    assert str(tmp_path / "config.toml") in refused.value.message
    assert f"line {line}" in refused.value.message
    assert told in refused.value.message
    assert "hunter2" not in refused.value.message


def test_the_table_of_the_audit_names_key_and_anchor_and_the_environment_wins(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        """
        [audit]
        anchor = "s3://proof/seqferry/"
        key = "/etc/seqferry/audit.key"
        retention = "10y"
        lock_mode = "governance"
        """
    )
    found = Settings.load({"SEQFERRY_CONFIG": str(path)})
    assert (found.audit_anchor, found.audit_key) == ("s3://proof/seqferry", Path("/etc/seqferry/audit.key"))
    assert (found.audit_retention, found.audit_lock_mode) == ("10y", "GOVERNANCE")
    assert found.origins["audit_anchor"] == f"{path}, line 3"

    found = Settings.load({"SEQFERRY_CONFIG": str(path), "SEQFERRY_AUDIT_ANCHOR": "s3://other"})
    assert (found.audit_anchor, found.origins["audit_anchor"]) == ("s3://other", "SEQFERRY_AUDIT_ANCHOR")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[audit]\nanchor = "proof"', "line 2: 'proof' is no place for anchors; write s3://bucket/prefix"),
        ('[audit]\nancor = "s3://a"', "line 2: the key 'ancor' in [audit] is not known; did you mean 'anchor'"),
        ("[audit]\nanchor = 5", "line 2: [audit] anchor is a text"),
        ('[audit]\nretention = "long"', "line 2: 'long' is no time to keep anchors locked; write for example 90d"),
        ('[audit]\nlock_mode = "hard"', "line 2: 'hard' is no mode of Object Lock"),
        ('[audit]\nendpoint_url = "https://a:hunter22@x"', "line 2: that is no endpoint URL"),
        ('audit = "x"', "line 1: 'audit' is a table; write [audit]"),
        ('audit_key = "/a"\n[audit]\nkey = "/b"', "line 1: 'audit_key' is also in the table [audit]"),
    ],
)
def test_a_mistake_in_the_table_of_the_audit_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        _loaded(tmp_path, text)

    assert told in raised.value.message
    assert "hunter22" not in raised.value.message
