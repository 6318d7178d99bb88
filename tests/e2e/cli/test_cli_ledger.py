"""The summary of a transfer names the head of the ledger, to be kept outside of the database."""

from __future__ import annotations

from cli_process import Cli, Places


def test_the_summary_names_the_head_that_the_audit_compares_with(cli: Cli, places: Places) -> None:
    places.fill(["a", "b"])

    printed = cli.run("cp", *places.uris)
    kept = cli.run("audit", "head").out.strip()
    told = cli.run("sync", *places.uris, "--json").events[-1]

    assert f"  ledger    {kept}" in printed.err.splitlines()
    assert told["ledger_head"] == cli.run("audit", "head").out.strip() != kept
    assert told["ledger_head"].startswith(f"{told['ledger_count']}-")
    assert cli.run("audit", "verify", "--head", kept, "--head", told["ledger_head"]).code == 0
