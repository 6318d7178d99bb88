"""Patterns that people write: which code may see them, how long they take, and what they are on record."""

from __future__ import annotations

import ast
import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import seqferry
from seqferry.model.errors import UsageError
from seqferry.model.option_groups import Names
from seqferry.preflight.suggestions import most_similar
from seqferry.spec.patterns import MAX_RULES, Wildcards
from seqferry.spec.renaming import check, rename
from seqferry.spec.selection import Conditions, build_matcher
from seqferry.spec.selection import check_conditions as check_selection

_SOURCE = Path(seqferry.__file__).parent
_BANNED = {"fnmatch", "glob", "sre_compile", "sre_parse"}
_OF_OWN_SOCKETS = {"demo/reaper.py", "demo/server.py"}
"""Expand the names of sockets of the server that the demonstration starts."""
_OF_OWN_FILES = "nextflow/s5cmd.py imports glob"
"""The shim expands local paths of its command line as s5cmd does: in a process of the user's own, as a shell would."""
_BY_PATTERN = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(_SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def _constants(module: ast.Module) -> set[str]:
    """Names of the module that are constants: ``NAME: Final = ...``, made of constants."""
    found: set[str] = set()
    for node in module.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and "Final" in ast.unparse(node.annotation)
            and node.value is not None
            and _is_constant(node.value, found)
        ):
            found.add(node.target.id)
    return found


def _is_constant(node: ast.expr, constants: set[str]) -> bool:
    if isinstance(node, ast.JoinedStr):
        return all(_is_constant(one, constants) for one in node.values)
    if isinstance(node, ast.FormattedValue):
        return _is_constant(node.value, constants)
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left, constants) and _is_constant(node.right, constants)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "re.escape"
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in constants)


def test_the_engine_of_python_sees_constant_patterns_only() -> None:
    faults: list[str] = []
    for path, module in _modules():
        constants = _constants(module)
        for node in ast.walk(module):
            at = f"{path.relative_to(_SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                faults += [f"{at} imports {one.name}" for one in node.names if one.name.split(".")[0] in _BANNED]
            elif isinstance(node, ast.ImportFrom) and (node.module in _BANNED or node.module == "re"):
                faults.append(f"{at} imports from {node.module}")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                is_pattern = called.startswith("re.") and node.func.attr in _BY_PATTERN
                # Path.glob, Path.rglob and PurePath.full_match translate to `re`.
                is_glob = node.func.attr in {"glob", "rglob", "full_match"} and at.split(":")[0] not in _OF_OWN_SOCKETS
                if (is_pattern or is_glob) and not _is_constant(node.args[0], constants):
                    faults.append(f"{at} calls {called} with a pattern that is not a constant")
    faults = [fault for fault in faults if re.sub(r":\d+", "", fault) != _OF_OWN_FILES]
    assert not faults, "\n".join(faults)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


HARD = [
    "s/a*a*a*a*a*a*a*a*a*b/x/",
    "s/a*a*a*a*a*a*a*a*a*b/x/g",
    "s/(a*)*b/x/",
    "s/(a|aa)+$/x/",
    "s/(a|a)*b/x/",
    "s/(.*)*(.*)*(.*)*b/x/",
    "s/(a?){200}a{200}b/x/",
    "s/([a-z]+)+[0-9]/x/i",
    "s/(\\w+\\s?)*!/x/",
    "s/.*.*.*.*.*=.*/x/g",
    "s/^(([a-z])+.)+[A-Z]([a-z])+$/x/",
]


@pytest.mark.parametrize("rule", HARD)
def test_a_rule_takes_time_that_is_linear_in_the_name(rule: str) -> None:
    check([rule])
    rename((rule,), "a")

    # A thousandth of what the engine of Python takes for the shorter one.
    assert _seconds(lambda: rename((rule,), "a" * 500)) < 0.5
    assert _seconds(lambda: rename((rule,), "a" * 4000)) < 2


@pytest.mark.parametrize("wildcard", ["*a" * 500 + "b", "?*" * 500 + "b", "**a" * 300 + "b", "*" * 1000 + "b"])
@pytest.mark.parametrize("is_path", [False, True])
def test_a_wildcard_takes_time_that_is_linear_in_the_key(wildcard: str, is_path: bool) -> None:
    for selection in (Conditions(pattern=wildcard, is_path=is_path), Conditions(names=Names((f"- {wildcard}",) * 100))):
        test = build_matcher(selection)
        assert test is not None
        assert _seconds(lambda test=test: test("a" * 4000, 1, 0.0)) < 1


def test_nearest_names_are_found_in_a_bounded_time() -> None:
    keys = ["run/" + "ab" * 500 + f"{number}" for number in range(1000)] + ["run/reads_2.fastq"]

    assert _seconds(lambda: most_similar("run/" + "ba*" * 300, keys)) < 3
    assert most_similar("run/read_2.fastq", keys)[0] == "run/reads_2.fastq"


def test_others_work_while_a_rule_takes_long() -> None:
    rule = "s/(a?){2000}a{2000}b|c/x/g"
    check([rule])
    beats: list[float] = []
    done = threading.Event()

    def beat() -> None:
        while not done.is_set():
            beats.append(time.monotonic())
            done.wait(0.005)

    other = threading.Thread(target=beat)
    other.start()
    try:
        for _ in range(5):
            rename((rule,), "a" * 4000)
    finally:
        done.set()
        other.join()
    assert max((b - a for a, b in itertools.pairwise(beats)), default=0.0) < 1


_ATOMS = [
    "a",
    "b",
    "é",
    "1",
    "_",
    "[ab]",
    "[^a]",
    "[]a]",
    "[a-c1]",
    r"[\w-]",
    ".",
    r"\w",
    r"\W",
    r"\d",
    r"\s",
    r"\.",
    "{",
]
_ATOMS += ["(a|b)", "(ab)", "(?:b|é)", "(a|ab)", "(?P<n{}>a*)", "(b*)"]
_REPEATS = ["", "", "", "*", "+", "?", "{2}", "{,2}", "{1,}"]


def test_rules_mean_what_they_mean_in_python(rng: random.Random) -> None:
    """Rules compared with ``re`` on short names, where that takes no time."""
    compared = 0
    for _ in range(3000):
        pieces = [rng.choice(_ATOMS).replace("{}", f"{at}") for at in range(rng.randrange(1, 5))]
        pattern = "".join(piece + rng.choice(_REPEATS) for piece in pieces)
        pattern = rng.choice(["", "", "^"]) + pattern + rng.choice(["", "", "$"])
        flags = rng.choice(["", "g", "i", "gi"])
        name = "".join(rng.choice("abcA1_é .-{]") for _ in range(rng.randrange(12)))
        try:
            expression = re.compile(pattern, re.IGNORECASE if "i" in flags else 0)
        except re.error:
            continue
        expected = expression.sub(lambda found: f"<{found[0]}>", name, count=0 if "g" in flags else 1)
        assert rename((f"s/{pattern}/<&>/{flags}",), name) == expected, (pattern, name)
        compared += 1
    assert compared > 2000


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("s/(a)\\1/x/", "what a group has matched"),
        ("s/a(?=b)/x/", "looking ahead and behind"),
        ("s/(?<!a)b/x/", "looking ahead and behind"),
        ("s/(?>a+)b/x/", "gives nothing back"),
        ("s/a++/x/", "gives nothing back"),
        ("s/(a{1000}){1000}/x/", "more than 1024 KiB"),
        ("s/" + "(" * 300 + "a" + ")" * 300 + "/x/", "nested"),
    ],
)
def test_what_no_linear_engine_can_do_is_refused_by_name(rule: str, named: str) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        check([rule])
    assert refused.value.message.startswith(f"--rename '{rule}'")


def test_rules_and_names_have_bounds() -> None:
    with pytest.raises(UsageError, match="at most 100 rules"):
        check(["s/a/b/"] * 101)
    with pytest.raises(UsageError, match="all rules together are too big"):
        check(["s/(\\w{20}|x)y/b/"] * 100)
    with pytest.raises(UsageError, match="more than 4,096 bytes"):
        rename(("s/a/" + "a" * 900 + "/g",) * 5, "aaa")
    with pytest.raises(UsageError, match="at most 1,000 rules"):
        check_selection(Conditions(names=Names(("- a",) * (MAX_RULES + 1))))
    with pytest.raises(UsageError, match="more than 4,096 characters"):
        check_selection(Conditions(names=Names(("- " + "a" * 5000,))))
    with pytest.raises(UsageError, match="all rules together have more than"):
        check_selection(Conditions(names=Names(("- " + "a" * 4000,) * 100)))


def test_bytes_that_are_no_utf8_stay_what_they_are() -> None:
    assert rename(("s/a(.)/\\1b/",), "a\udcff") == "\udcffb"
    assert Wildcards([(True, "a?\udcfe")], "rule").decide("a\udcff\udcfe") is True
