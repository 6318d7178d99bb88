"""The documentation says what there is: every option, every exit code, every test that holds a claim."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from seqferry.cli import exits
from seqferry.cli.app import application
from seqferry.cli.commands.status import status_facts
from seqferry.cli.output import progress_text, summary
from seqferry.model.locations import S3Location
from seqferry.model.models import ObjectRecord, Status, Totals, TransferSpec
from seqferry.settings import tables
from seqferry.settings.channels import ChannelTable
from seqferry.settings.place_limits import PlaceLimit
from seqferry.settings.server_table import Server
from seqferry.settings.shares import Share

ROOT = Path(__file__).parents[2]
CONFIGURATION = "".join(
    (ROOT / "docs" / page).read_text() for page in ("use/options.md", "use/output.md", "operate/configuration.md")
)


def options() -> list[tuple[str, str | None]]:
    """Every option of every command, with its environment variable."""
    found: set[tuple[str, str | None]] = set()
    todo = [*typer.main.get_command(application([])).commands.values()]  # type: ignore[attr-defined]
    while todo:
        command = todo.pop()
        todo += getattr(command, "commands", {}).values()
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                long = max(parameter.opts, key=len)
                found.add((long, parameter.envvar))
    return sorted(found, key=str)


def test_the_options_that_are_documented_are_those_that_there_are() -> None:
    found = options()
    documented = set(re.findall(r"`(--[a-z-]+)`", CONFIGURATION))
    there = {option for option, _ in found} | {"--dryrun", "--no-preflight", "--read-write"}

    assert len(found) > 200
    assert not [name for pair in found for name in pair if name and f"`{name}`" not in CONFIGURATION]
    assert documented <= there


@pytest.mark.parametrize(
    ("page", "model"),
    [
        ("operate/configuration.md", Server),
        ("operate/configuration.md", PlaceLimit),
        ("use/gateway.md", Share),
        ("use/notices.md", ChannelTable),
    ],
)
def test_the_keys_of_tables_are_documented(page: str, model: type[Any]) -> None:
    text = (ROOT / "docs" / page).read_text()

    assert [key for key in tables.keys(model) if not re.search(rf"`{key}`|^{key} = ", text, re.MULTILINE)] == []


def test_the_exit_codes_are_documented() -> None:
    for name in ("OK", "FAILED", "USAGE", "MISMATCH", "NOTHING", "INTERRUPTED"):
        assert f"\n| {getattr(exits, name)} |" in CONFIGURATION


def test_the_fields_of_json_events_are_documented() -> None:
    now = Status("id", "done", TransferSpec(S3Location("a"), S3Location("b")), Totals(), True, 0.0, "ada")
    nothing: dict[str, Any] = {field.name: None for field in fields(ObjectRecord)}
    record = ObjectRecord(**{**nothing, "not_carried": ()})

    shown = {
        *progress_text.progress_facts(now),
        *summary.facts(summary.TransferSummary(now, [], []), 0),
        *status_facts(now),
        *summary.object_facts(record),
    }

    assert not {field for field in shown if f"`{field}`" not in CONFIGURATION}


def test_the_addresses_of_wheels_are_of_this_version() -> None:
    """Named as maturin names wheels of ``make dist``, at the repository of ``pyproject.toml``."""
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    wheel = f"seqferry-{version}-cp311-abi3-manylinux_2_17_$ARCH.manylinux2014_$ARCH.whl"

    for page in ("README.md", "docs/operate/install.md"):
        assert f" {repository}/releases/download/v{version}/{wheel}\n" in (ROOT / page).read_text()


def claims() -> list[tuple[str, str]]:
    text = "".join(page.read_text() for page in sorted(ROOT.glob("docs/guarantees/*.md")))
    return re.findall(r"`((?:tests|crates)/[\w/.]+)::(\w+)`", text)


def test_the_tests_that_hold_a_claim_exist() -> None:
    found = claims()
    tests = {file: set(re.findall(r"\b(?:def|fn) (\w+)\(", (ROOT / file).read_text())) for file, _ in found}

    assert len(found) > 20
    assert not [(file, test) for file, test in found if test not in tests[file]]


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
PACKAGE = ROOT / "python/seqferry"
LARGE = 300
"""Lines of a Python package or module from which on it is on the page of the architecture."""


def lines(*files: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


def places_of_code() -> list[str]:
    """Crates, and large Python packages of every depth and modules, as the page of the architecture names them."""
    packages = [file.parent for file in PACKAGE.rglob("*/__init__.py")]
    modules = [file for file in PACKAGE.rglob("*.py") if lines(file) > LARGE]
    return sorted(
        [
            *(file.parent.name for file in ROOT.glob("crates/*/Cargo.toml")),
            *(package.relative_to(PACKAGE).as_posix() for package in packages if lines(*package.rglob("*.py")) > LARGE),
            *(module.relative_to(PACKAGE).as_posix() for module in modules),
        ]
    )


def test_each_crate_and_large_module_is_on_the_page_of_the_architecture() -> None:
    names = {place: place.rpartition("/")[2] if place.endswith(".py") else place for place in places_of_code()}

    assert len(names) > 40
    assert not [place for place, name in names.items() if not any(f"`{one}`" in ARCHITECTURE for one in (place, name))]


def test_files_that_the_page_of_the_architecture_names_exist() -> None:
    named = set(re.findall(r"`([\w/]+/[\w./]*|[\w/]+\.(?:py|rs))`", ARCHITECTURE))
    missing = [name for name in named if not any((root / name).exists() for root in (ROOT, PACKAGE))]

    assert len(named) > 40
    assert not [name for name in missing if "/" in name or not [*PACKAGE.rglob(name)]]


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("where is a command", "cli/commands/"),
        ("where is a transfer checked before it starts", "preflight/"),
        ("where are ACL, SSE and tags set", "crates/store/src/properties.rs"),
        ('where is "did you mean" made', "preflight/start.py"),
        ("where is an extra object removed", "planning/removal_rules.py"),
        ("where is an operation added", "workflows/operations"),
        ("where is an option added", "model/option_groups.py"),
        ("where is a store added", "crates/store/src"),
        ("where is a retry decided", "crates/client/src/retry.rs"),
        ("where is a part planned", "crates/transfer/src/plan.rs"),
        ("where is an upload id recorded", "db/objects.py"),
        ("where does a key become a path", "crates/store/src/disk/names.rs"),
        ("where is an interface added", "service/service.py"),
    ],
)
def test_the_page_of_the_architecture_says_where_to_look(question: str, file: str) -> None:
    [answer] = re.findall(rf"\| {question} \| (.*) \|", ARCHITECTURE)

    assert f"`{file}`" in answer


@pytest.mark.parametrize(
    ("file", "symbols"),
    [
        ("python/seqferry/cli/commands/preflight.py", "def preflight"),
        ("python/seqferry/cli/commands/check.py", "def check"),
        ("python/seqferry/cli/commands/token.py", "token = typer.Typer"),
        ("python/seqferry/cli/commands/head.py", "def head"),
        ("python/seqferry/spec/check.py", "def build_check_spec"),
        ("python/seqferry/settings/tokens.py", "class Identity"),
        ("python/seqferry/service/authority.py", "def check_start"),
        ("python/seqferry/spec/properties.py", "acl, sse, tags"),
        ("crates/store/src/properties.rs", "x-amz-acl, x-amz-server-side-encryption"),
        ("crates/store/src/s3/headers.rs", "x-amz-tagging"),
        ("python/seqferry/preflight/start.py", "did you mean"),
        ("python/seqferry/settings/tables.py", "did you mean"),
        ("python/seqferry/preflight/suggestions.py", "MAX_SUGGESTIONS"),
        (
            "python/seqferry/planning/removal_rules.py",
            "def refuse_incomplete_source, def refuse_over_max_delete, def is_removed",
        ),
        ("crates/transfer/src/remove.rs", "fn remove"),
        ("crates/client/src/retry.rs", "RetryPolicy"),
        ("python/seqferry/model/errors.py", "def is_transient"),
        ("python/seqferry/model/operations.py", "class "),
        ("python/seqferry/workflows/operations/__init__.py", "class OperationWork, class BatchWork"),
        ("python/seqferry/model/option_groups.py", "class Filters, Option("),
        ("python/seqferry/spec/option_groups.py", "class Endpoints, class OneEndpoint"),
        ("python/seqferry/spec/identity.py", "def resolve"),
        ("python/seqferry/model/models.py", "class ResolvedSpec"),
        ("python/seqferry/db/objects.py", "def record_uploads"),
        ("python/seqferry/workflows/batch_steps.py", "record_uploads"),
        ("python/seqferry/planning/decision.py", "class Decision"),
        ("python/seqferry/service/service.py", "class Service"),
        ("python/seqferry/settings/config.py", "class Settings"),
        ("python/seqferry/model/prices.toml", "source"),
        ("python/seqferry/api/authentication.py", "class "),
    ],
)
def test_the_answers_on_where_to_look_hold_what_they_are_named_for(file: str, symbols: str) -> None:
    place = ROOT / file
    named = file.removeprefix("python/seqferry/").removesuffix("/__init__.py")
    assert named in ARCHITECTURE or place.name in ARCHITECTURE
    assert place.exists()

    missing = [one for one in symbols.split(", ") if one and one.lower() not in place.read_text().lower()]
    assert not missing


def headers() -> list[tuple[str, str]]:
    """Sources of the product, each with the first line of its header."""
    found = [(file, re.match(r'r?"""(.*)', file.read_text())) for file in sorted(PACKAGE.rglob("*.py"))]
    found += [(file, re.match(r"//! (.*)", file.read_text())) for file in sorted(ROOT.glob("crates/*/src/**/*.rs"))]
    return [(file.relative_to(ROOT).as_posix(), "" if header is None else header[1]) for file, header in found]


QUESTIONS = re.compile(r"(What|Whether|Where|When|Why|Which|Who|Whose|Whatever|How)\b")
"""Words that no description begins with: its subject stands there."""


def test_the_header_of_a_file_begins_with_what_it_documents() -> None:
    assert len(headers()) > 400
    found = [(file, header) for file, header in headers() if not header or QUESTIONS.match(header)]
    assert not found + [(file, header) for file, header in headers() if header.startswith("From ")]


def descriptions(file: Path) -> list[str]:
    """First lines of all doc comments of a source."""
    if file.suffix in {".py", ".pyi"}:
        return re.findall(r'(?m)^\s*r?"""(.*)', file.read_text())
    lines = [re.match(r"\s*//[/!] ?(.*)", line) for line in file.read_text().splitlines()]
    return [line[1] for before, line in pairwise([None, *lines]) if line is not None and before is None]


def test_descriptions_begin_with_their_subject() -> None:
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi"), *ROOT.glob("crates/*/src/**/*.rs")]
    found = {file: descriptions(file) for file in files}

    assert sum(map(len, found.values())) > 6000
    assert not [(file.name, line) for file, lines in found.items() for line in lines if QUESTIONS.match(line)]


FOLDERS = ("docs", "tests", "crates", "benches", "tools", "deploy", "examples", "integrations")


def texts() -> dict[str, str]:
    """Text of every Markdown page of the repository, by its path from the root."""
    found = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
    return {page.relative_to(ROOT).as_posix(): page.read_text() for page in sorted(found)}


def prose(text: str) -> list[str]:
    """Lines outside of fenced code blocks."""
    lines, fenced = [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        if not fenced and not fence:
            lines.append(line)
    return lines


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    found: set[str] = set()
    for line in prose(text):
        if heading := re.fullmatch(r"#{1,6} +(.+?)[ #]*", line):
            shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            anchor = re.sub(r"[^\w -]", "", shown.lower()).replace(" ", "-")
            copies = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in found)
            found.add(f"{anchor}-{copies}" if copies else anchor)
    return found


def links(text: str) -> list[str]:
    """Targets of links and images within the repository. Code holds none."""
    shown = re.sub(r"(`+).+?\1", "", "\n".join(prose(text)), flags=re.DOTALL)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", shown) if not re.match(r"[a-z]+:", target)]


def dead_links(path: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere: no such file, or no such heading in it."""
    dead: list[str] = []
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(text if not name else target.read_text())):
            dead.append(link)
    return dead


def long_lines(text: str) -> list[str]:
    """Lines of prose over 120 characters and of tables over 160.

    Addresses and the names of tests cannot be broken and do not count.
    """
    return [
        line
        for line in prose(text)
        if len(re.sub(r"https?://[^\s)>]+|`[\w/.]+::\w+`", "", line)) > (160 if line.lstrip().startswith("|") else 120)
    ]


def test_links_and_anchors_of_pages_resolve() -> None:
    assert not [(page, link) for page, text in texts().items() for link in dead_links(ROOT / page, text)]


def test_pages_that_a_page_names_exist() -> None:
    named = re.compile(r"`(docs/[\w./-]+\.md)`")

    assert not [
        (page, name) for page, text in texts().items() for name in named.findall(text) if not (ROOT / name).is_file()
    ]


def test_lines_of_pages_fit_on_a_screen() -> None:
    assert not [(page, line) for page, text in texts().items() for line in long_lines(text)]


def test_a_dead_link_is_found() -> None:
    text = "# One `two`: 3\n\n# One two 3\n\n[a](#one-two-3) [b](#one-two-3-1) [c](#one) [d](no.md) `[e](no.md)` [f](https://x/)"

    assert dead_links(ROOT / "README.md", text) == ["#one", "no.md"]


def test_a_long_line_is_found_but_in_code_and_addresses() -> None:
    long, table = "x" * 121, "|" + "x" * 160
    text = f"{long}\n{table}\n{table[:-1]}\n```\n{long}\n```\nsee https://{long}"

    assert long_lines(text) == [long, table]
