"""The words of next steps: one for each code of the engine, naming options that commands have."""

import importlib
import re

import pytest

from seqferry.cli import command_tree
from seqferry.engine.rules import path_refusal
from seqferry.model.messages import steps
from seqferry.model.messages.steps import ADVICE, SERVING

_COMMANDS = dict(command_tree.walk_commands(command_tree.build_tree()))
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Options of other programs.
_FOREIGN = {"narrow_window"}


def test_each_code_of_the_engine_has_words_and_there_are_no_others() -> None:
    assert set(ADVICE) == set(importlib.import_module("seqferry._native").ADVICE_CODES)
    assert set(SERVING) < set(ADVICE)


def test_while_a_process_serves_no_step_tells_to_run_its_command_again() -> None:
    assert [code for code, words in {**ADVICE, **SERVING}.items() if "same command" in words] == []


@pytest.mark.parametrize("code", sorted(ADVICE.keys() - _FOREIGN))
def test_the_options_of_a_step_are_options_of_commands(code: str) -> None:
    offered = {option for command in _COMMANDS.values() for each in command.params for option in each.opts}

    assert set(_OPTION.findall(ADVICE[code] + SERVING.get(code, ""))) <= offered


@pytest.mark.parametrize("code", sorted(steps.TEXTS))
def test_a_step_for_the_page_names_no_command_of_its_reader(code: str) -> None:
    text = steps.PAGE.text(code)

    assert "same command" not in text
    assert not _OPTION.search(text)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (f"GetObject k: Forbidden (403). {ADVICE['check_network']}", "Check the endpoint's address and the network"),
        ("--acl and --grants cannot be combined.", "“ACL” and “Grants” cannot be combined."),
        (f"Why. {ADVICE['restore']}", "Why. The object is archived: start a new transfer with “Restore”, which asks"),
        (f"Why. {SERVING['repeat_after_sender']}", "Why. Retry it when the sender has finished."),
        (ADVICE["repeat"], "Retry it."),
        ("run--41/a.bam is not there", "run--41/a.bam is not there"),
        ("Why.", "Why."),
    ],
)
def test_a_message_is_for_a_page_with_what_can_be_done_there(message: str, text: str) -> None:
    found = steps.page_text(message)

    assert text in found
    assert "same command" not in found


@pytest.mark.parametrize("code", sorted(code for code in ADVICE if ADVICE[code][:1].isupper()))
def test_a_step_is_found_again_at_the_end_of_a_message(code: str) -> None:
    cause, found = steps.split_next_step(f"GetObject s3://b/k: Code (400): why. {ADVICE[code]}")

    assert cause == "GetObject s3://b/k: Code (400): why."
    assert found is not None
    assert ADVICE[found] == ADVICE[code]


def test_the_messages_of_the_engine_end_with_these_words() -> None:
    refused = path_refusal("a/../b", 1)

    assert refused
    assert refused[1].endswith(f". {ADVICE['choose_key']}")
