"""Lists of commands as one transfer: the specs of their lines, and which line an object belongs to.

Lines that name single objects and ask for the same otherwise become one part, with a list of keys. The rows of the
transfer name whole addresses after the number of their line: ``12 s3://bucket/key``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location, S3Location
from seqferry.model.models import OPERATION_RUN, Compiled, ResolvedSpec, TransferSpec
from seqferry.spec import identity, overlaps, stored

PARTS: Final = stored.PARTS
"""Option: the parts, each with its ``spec`` and the numbers of its ``lines``: one, or one for each key."""

OPTIONS: Final = frozenset({PARTS})

MAX_LINES: Final = 20_000
"""The spec is read as a whole for each batch."""


@frozen
class ListedCommand:
    """One line of a list of commands, with its spec."""

    line: int
    spec: TransferSpec


@frozen
class _Line:
    """A line whose spec is resolved."""

    line: int
    spec: ResolvedSpec


@frozen
class RunPart(Compiled):
    """Lines of a run that are done as one transfer.

    Attributes:
        lines: the number of the line, or one for each key of ``spec``.
    """

    spec: ResolvedSpec
    lines: tuple[int, ...]

    def line_of(self, key: str) -> int:
        """The line that names an object of the source."""
        if len(self.lines) == 1 or self.spec.keys is None:
            return self.lines[0]
        return self.compile_with(_lines_by_key)[key]


def _lines_by_key(part: RunPart) -> dict[str, int]:
    return dict(zip(part.spec.keys or (), part.lines, strict=True))


@dataclass(slots=True)
class _Group:
    """Lines of single objects that ask for the same otherwise."""

    spec: ResolvedSpec
    lines: dict[str, int] = field(default_factory=dict[str, int])
    targets: list[str] = field(default_factory=list[str])


def build_run_spec(commands: Sequence[ListedCommand], name: str) -> ResolvedSpec:
    """The spec of ``run``. ``name`` is that of the list, for messages.

    Raises:
        UsageError: the list is empty or too long, or a line reads, writes or removes what another writes, or removes
            what another reads.
    """
    if not commands:
        raise UsageError(f"{name} holds no command; write one on each line, as cp s3://bucket/key s3://other/")
    if len(commands) > MAX_LINES:
        raise UsageError(f"{name} holds {len(commands):,} commands; split it into lists of {MAX_LINES:,}.")
    resolved = [_Line(command.line, identity.resolve(command.spec)) for command in commands]
    _check_overlaps(resolved, name)
    parts = list(_parts(resolved))
    options: dict[str, Any] = {PARTS: [{"spec": stored.write(part.spec), "lines": list(part.lines)} for part in parts]}
    place = _place(parts)
    return identity.resolve(TransferSpec(source=place, target=place, operation=OPERATION_RUN, options=options))


def _check_overlaps(commands: Sequence[_Line], name: str) -> None:
    found = overlaps.find_first((command.line, command.spec) for command in commands)
    if found is None:
        return
    if found.first_act == found.second_act:
        text = f"lines {found.first} and {found.second} both change {found.uri}; leave one of them out"
    else:
        text = (
            f"line {found.first} {found.first_act} {found.uri}, which line {found.second} {found.second_act}: lines "
            "are done side by side, and content could be lost. Write two lists"
        )
    raise UsageError(f"{name}: {text}.")


def _parts(commands: Iterable[_Line]) -> Iterable[RunPart]:
    groups: dict[ResolvedSpec, list[_Group]] = {}
    whole: list[RunPart] = []
    for command in commands:
        spec = command.spec
        if not spec.single or spec.options:
            whole.append(RunPart(spec, (command.line,)))
            continue
        _add(groups.setdefault(_alike(spec), []), spec, command.line)
    for alike in groups.values():
        for group in alike:
            yield RunPart(_of_group(group), tuple(group.lines.values()))
    yield from whole


def _alike(spec: ResolvedSpec) -> ResolvedSpec:
    """The part of a spec that all lines of a group have in common."""
    return spec.derive(source=replace(spec.source, key=""), target=replace(spec.target, key=""), strip="", single=False)


def _add(groups: list[_Group], spec: ResolvedSpec, line: int) -> None:
    group = next((one for one in groups if spec.source.key not in one.lines), None)
    if group is None:
        group = _Group(_alike(spec))
        groups.append(group)
    group.lines[spec.source.key] = line
    group.targets.append(spec.target.key)


def _of_group(group: _Group) -> ResolvedSpec:
    """The lines of a group as one spec with a list of keys: each line was checked by itself."""
    targets = () if group.spec.kind.removes else tuple(group.targets)
    return group.spec.derive(keys=tuple(group.lines), targets=targets)


def _place(parts: Sequence[RunPart]) -> Location:
    """The place that stands for all places of a run: the first one in S3, a target before its source, without a key."""
    places = [place for part in parts for place in (part.spec.target, part.spec.source)]
    found = next((place for place in places if isinstance(place, S3Location)), None)
    assert found is not None, "one side of each command is in S3"
    return replace(found, key="")


def read_parts(spec: TransferSpec) -> list[RunPart]:
    """The parts of a run.

    Raises:
        UnsupportedError: this version does not know one of them.
    """
    rows: Sequence[Mapping[str, Any]] = spec.options[PARTS]
    return [RunPart(stored.read(one["spec"]), tuple(one["lines"])) for one in rows]


def line_specs(spec: TransferSpec) -> Iterator[ResolvedSpec]:
    """The specs of the lines of a run, each as it was written."""
    for part in read_parts(spec):
        if part.spec.keys is None or len(part.lines) != len(part.spec.keys):
            yield part.spec
            continue
        targets = part.spec.targets or part.spec.keys
        plain = part.spec.derive(keys=None, targets=(), single=True)
        for key, target in zip(part.spec.keys, targets, strict=True):
            yield plain.derive(source=replace(plain.source, key=key), target=replace(plain.target, key=target))


def name_key(line: int, place: Location, key: str) -> str:
    """A key as the rows of a run name it."""
    return f"{line} {place.at(key)}"


def line_of_row(row_key: str) -> int:
    return int(row_key.partition(" ")[0])


def key_of_row(row_key: str, place: Location) -> str:
    """The key of the object that a row names."""
    return row_key.partition(" ")[2].removeprefix(place.at(""))


class RunLines:
    """The parts of a run by the numbers of their lines."""

    def __init__(self, spec: TransferSpec) -> None:
        self.parts: Final = read_parts(spec)
        self._by_line = {line: number for number, part in enumerate(self.parts) for line in part.lines}

    def number_of(self, row_key: str) -> int:
        """The number of the part that a row belongs to."""
        return self._by_line[line_of_row(row_key)]
