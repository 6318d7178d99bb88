"""The command that starts and ends workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.service.scaling import CommandError, run_command


def test_the_words_and_the_environment_say_what_to_do_with_which_slot(tmp_path: Path) -> None:
    said = tmp_path / "said"
    script = 'echo "$1 $2 $SEQFERRY_ACTION $SEQFERRY_SLOT" > "$0"'
    run_command(["sh", "-c", script, str(said), "{action}", "worker@{slot}.service"], "start", 3)

    assert said.read_text() == "start worker@3.service start 3\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["sh", "-c", "echo first >&2; echo denied >&2; exit 4"], "ended with status 4: denied."),
        (["sh", "-c", "exit 1"], "ended with status 1."),
        (["/nonexistent/command"], "/nonexistent/command cannot be run: No such file or directory."),
    ],
)
def test_a_command_that_fails_is_a_sentence(command: list[str], message: str) -> None:
    with pytest.raises(CommandError) as failed:
        run_command(command, "stop", 1)

    assert str(failed.value).endswith(message)
