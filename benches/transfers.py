"""Comparisons of transfers (``seqferry.bench.transfer``) on servers of this machine: common parts of their benches."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import harness
from figures import Figure, Result
from seqferry.bench.methods import InstalledMethod
from seqferry.bench.storage import Storage, connect
from seqferry.bench.transfer import MeasuredRun, Outcome, fresh_id
from seqferry.model.formatting import rate
from support.run import MissingToolError, Run

BASELINE: Final = "seqferry"
_MIB: Final = 2**20


class Comparison:
    """Outcomes by server, and what became of the servers that are not installed."""

    def __init__(self, found: Sequence[InstalledMethod], left_out: Sequence[str]) -> None:
        self.found = found
        self.left_out = list(left_out)
        self.outcomes: dict[str, Outcome] = {}
        for line in left_out:
            print(line)

    def run(self, servers: Sequence[str], compare: Callable[[Run, str], Outcome]) -> None:
        """Compares on each server; ``compare`` starts it.

        Raises:
            KeyboardInterrupt: a comparison was interrupted.
        """
        bench = Run.create()
        try:
            for kind in servers:
                try:
                    print(f"\n{kind}", flush=True)
                    self.outcomes[kind] = compare(bench, kind)
                except MissingToolError as error:
                    self.left_out.append(f"{kind} is left out: {error}")
                    print(self.left_out[-1])
        finally:
            bench.close()
        if any(outcome.interrupted for outcome in self.outcomes.values()):
            raise KeyboardInterrupt

    def figures(self) -> list[Figure]:
        return [figure for kind, outcome in self.outcomes.items() for figure in _figures(kind, outcome.runs)]

    def finish(
        self,
        options: argparse.Namespace,
        bench: str,
        *,
        more: Sequence[Figure] = (),
        model: dict[str, Any] | None = None,
        simulated: bool = False,
    ) -> int:
        """Prints and writes the figures of all servers, and ``more``; returns the exit status."""
        figures = [*self.figures(), *more]
        harness.print_table(figures)
        result = Result(
            bench,
            figures,
            simulated=simulated,
            model=model,
            versions={each.method.name: each.version for each in self.found},
            left_out=self.left_out,
            errors=[line for kind, outcome in self.outcomes.items() for line in _errors(kind, outcome)],
            details={
                "settings": {each.method.name: each.method.what for each in self.found},
                "runs": [
                    {"server": kind, **asdict(each)} for kind, outcome in self.outcomes.items() for each in outcome.runs
                ],
            },
        )
        return harness.finish(options, result)


def connect_to(environment: Mapping[str, str], bucket: str, *, prepared_at: str | None = None) -> Storage:
    """Connects without the developer's own settings, here and in the processes that are started.

    Args:
        prepared_at: an endpoint of the same bucket for preparations, which are not measured. Over TLS boto3 sends
            checksums as trailers, and versitygw refuses its parts.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(environment, AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
    storage = connect(bucket, f"seqferry-bench-{fresh_id()}/", endpoint_url=prepared_at, profile=None, region=None)
    if prepared_at is not None:
        storage.place = replace(storage.place, endpoint_url=environment["AWS_ENDPOINT_URL"])
    return storage


class PrintedProgress:
    def say(self, line: str) -> None:
        print(f"  {line}", flush=True)

    def ran(self, run: MeasuredRun) -> None:
        result = run.error
        if result is None and run.cost is not None and run.speed is not None:
            peak = (run.cost.peak_bytes or 0) / _MIB
            on_disk = "" if run.on_disk_s is None else f" ({run.on_disk_s:.2f} s until on the disk)"
            used = f"{run.cost.cpu_s:.2f} s CPU, {peak:.0f} MiB, verified"
            result = f"{rate(run.speed)}, {run.cost.wall_s:.2f} s wall{on_disk}, {used}"
        print(
            f"  round {run.round + 1}  {run.direction:<8} {run.workload.name:<14} {run.variant.label:<12} {result}",
            flush=True,
        )


def _figures(kind: str, runs: Sequence[MeasuredRun]) -> list[Figure]:
    good = [each for each in runs if each.error is None and each.cost is not None]
    groups = dict.fromkeys((each.direction, each.workload) for each in good)
    found: list[Figure] = []
    for direction, work in groups:
        own: dict[str, list[MeasuredRun]] = {}
        for each in good:
            if (each.direction, each.workload) == (direction, work):
                own.setdefault(each.variant.label, []).append(each)
        group = f"{kind}, {direction} {work.name}: {work}"
        for name, unit, value in (
            ("wall time", "s", lambda run: run.cost.wall_s),
            ("time until on the disk", "s", lambda run: run.on_disk_s),
            ("client CPU time", "s", lambda run: run.cost.cpu_s),
            ("peak memory", "MiB", lambda run: (run.cost.peak_bytes or 0) / _MIB),
        ):
            series = {label: [value(run) for run in runs] for label, runs in own.items()}
            if all(None not in values for values in series.values()):
                found.append(Figure(group, name, unit, "lower", series, baseline=BASELINE))
    return found


def _errors(kind: str, outcome: Outcome) -> list[str]:
    lines = [f"{each.direction} {each.workload.name}, {each.variant.label}: {each.error}" for each in outcome.failed]
    if outcome.error is not None:
        lines.append(outcome.error.message)
    if outcome.left is not None:
        lines.append(outcome.left)
    return [f"{kind}: {line}" for line in lines]
