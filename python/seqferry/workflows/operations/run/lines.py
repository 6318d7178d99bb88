"""The lines of a run that move objects: which spec and which keys a row stands for."""

from __future__ import annotations

from seqferry.db.objects import ArrivedObject
from seqferry.model.models import ResolvedSpec
from seqferry.spec import run
from seqferry.spec.run import RunLines


def find_move(spec: ResolvedSpec, one: ArrivedObject) -> tuple[ResolvedSpec, ArrivedObject] | None:
    """The part and the keys of an object, if its line is a move."""
    lines = spec.compile_with(RunLines)
    part = lines.parts[lines.number_of(one.source_key)].spec
    if not part.kind.removes_sources:
        return None
    source, target = run.key_of_row(one.source_key, part.source), run.key_of_row(one.target_key, part.target)
    return part, one._replace(source_key=source, target_key=target)
