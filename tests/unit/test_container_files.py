"""Containerfile and compose file: what hadolint and the schema of compose say, and that they name what there is.

``data/compose-spec.json`` is of the Go module github.com/compose-spec/compose-go/v2, version 2.16.2 (Apache-2.0).
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from sqlalchemy import make_url

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy/container"
SCHEMA = json.loads((Path(__file__).parent / "data/compose-spec.json").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text())
HADOLINT = Path(sys.executable).with_name("hadolint")


def hadolint(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, "-"], input=text, capture_output=True, text=True, check=False)


def test_hadolint_has_nothing_to_say_of_the_containerfile() -> None:
    said = hadolint((FILES / "Containerfile").read_text())

    assert (said.returncode, said.stdout) == (0, "")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("ENTRYPOINT [", "ENTRYPOINT /bin/sh -c ["), "DL3025"),
        (("WORKDIR /var", "WORKDIR var"), "DL3000"),
        (("USER 65532:65532", "USER root"), "DL3002"),
    ],
)
def test_hadolint_would_notice(change: tuple[str, str], rule: str) -> None:
    assert rule in hadolint((FILES / "Containerfile").read_text().replace(*change)).stdout


def problems(compose: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(compose)]


def test_the_compose_file_follows_its_schema() -> None:
    assert problems(COMPOSE) == []


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [("worker", "comand", ["worker"]), ("server", "read_only", [1]), ("database", "restart", {})],
)
def test_the_schema_would_notice(service: str, key: str, value: object) -> None:
    changed = copy.deepcopy(COMPOSE)
    changed["services"][service][key] = value

    assert problems(changed) != []


def test_both_name_files_options_and_variables_that_there_are() -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    containerfile = (FILES / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--)(\S+) (\S+) ", containerfile, flags=re.MULTILINE)

    assert copied == [("requirements-runtime.lock", "seqferry-*.whl")]
    assert (ROOT / copied[0][0]).is_file()
    assert COMPOSE["services"]["server"]["image"] == f"${{SEQFERRY_IMAGE:-seqferry:{version}}}"
    for name in ("server", "worker"):
        command = [sys.executable, "-m", "seqferry", COMPOSE["services"][name]["command"][0], "--help"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for word in COMPOSE["services"][name]["command"]:
            assert not word.startswith("--") or word in told


def test_a_machine_without_the_tools_of_an_image_is_told_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tools/release/image.py", "--out", tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)})

    assert ended.returncode == 1
    assert ended.stderr == (
        "image: no image is built: install bubblewrap, buildah, mmdebstrap, umoci (Debian: apt-get install ...)\n"
    )


def test_any_password_of_the_database_can_be_given_to_compose() -> None:
    """In an address the characters @ / % of a password have a meaning; in a variable of libpq they have none."""
    environment = COMPOSE["x-seqferry"]["environment"]

    assert make_url(environment["SEQFERRY_DATABASE_URL"]).password is None
    assert environment["PGPASSWORD"] == COMPOSE["services"]["database"]["environment"]["POSTGRES_PASSWORD"]
