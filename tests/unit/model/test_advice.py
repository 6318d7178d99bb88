"""The words of next steps: one for each code of the engine, naming options that commands have."""

import importlib
import re

import pytest

from seqferry.cli import command_tree
from seqferry.engine.rules import path_refusal
from seqferry.model.advice import ADVICE, SERVING

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


def test_the_messages_of_the_engine_end_with_these_words() -> None:
    refused = path_refusal("a/../b", 1)

    assert refused
    assert refused[1].endswith(f". {ADVICE['choose_key']}")
