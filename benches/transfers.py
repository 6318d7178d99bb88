"""Comparisons of transfers (``seqferry.bench.transfer``) on servers of this machine: common parts of their benches."""

from __future__ import annotations

import argparse
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, Final

import harness
from figures import Figure, Result
from seqferry.bench import workload
from seqferry.bench.storage import Storage, connect
from seqferry.bench.transfer import MeasuredRun, Outcome, Plan, fresh_id, run
from seqferry.bench.workload import PieceMaker, Workload
from seqferry.model.formatting import rate
from support.run import MissingToolError, Run, find_tool
from support.sim import Simulator

BASELINE: Final = "seqferry"
SIMULATOR: Final = "s3sim"
_MIB: Final = 2**20
_PIECES_IN_FLIGHT: Final = 16


class Comparison:
    """Outcomes by server, and what became of the servers that are not installed."""

    def __init__(self, plan: Plan, left_out: Sequence[str], *, time_scale: float) -> None:
        self.plan = plan
        self.left_out = list(left_out)
        self.outcomes: dict[str, Outcome] = {}
        self._time_scale = time_scale
        self._model: dict[str, Any] | None = None
        for line in left_out:
            print(line)

    def run(self, servers: Sequence[str], compare: Callable[[Run, str], Outcome]) -> None:
        """Compares on each server: ``compare`` starts it, and the simulator is started here.

        Raises:
            KeyboardInterrupt: a comparison was interrupted.
        """
        bench = Run.create()
        try:
            for kind in servers:
                try:
                    print(f"\n{kind}", flush=True)
                    self.outcomes[kind] = self._simulate() if kind == SIMULATOR else compare(bench, kind)
                except MissingToolError as error:
                    self.left_out.append(f"{kind} is left out: {error}")
                    print(self.left_out[-1])
        finally:
            bench.close()
        if any(outcome.interrupted for outcome in self.outcomes.values()):
            raise KeyboardInterrupt

    def _simulate(self) -> Outcome:
        find_tool(SIMULATOR, variable="SEQFERRY_S3SIM", hint="run `make tools`")
        parameters = self.plan.parameters
        words = ["--bucket", "ours", "--bucket", "theirs"]
        words += ["--set", f"time_scale={self._time_scale}", "--set", f"seed={parameters.seed}"]
        for number, each in enumerate(parameters.workloads):
            sizes = [f"{size} B" for size in each.sizes().values()]
            objects = {"keys": "file_{i:07}", "count": len(sizes), "size": {"list": sizes}}
            words += ["--bucket", f"source-{number}={json.dumps({'objects': [objects]})}"]
        with Simulator(*words) as simulator:
            print(f"  a model of S3: {self._time_scale:g} of its seconds pass in one", flush=True)
            storage, origin = (connect_to(simulator.environment(), bucket) for bucket in ("ours", "theirs"))
            piece = _streams(simulator, parameters.workloads)
            self._model = simulator.model()  # read now: after an interruption the simulator may be gone
            tell = PrintedProgress()
            return run(self.plan, storage, work_folder=None, keep=False, tell=tell, piece=piece, origin=origin)

    def figures(self) -> list[Figure]:
        return [figure for kind, outcome in self.outcomes.items() for figure in _figures(kind, outcome.runs)]

    def finish(
        self,
        options: argparse.Namespace,
        bench: str,
        *,
        more: Sequence[Figure] = (),
    ) -> int:
        """Prints and writes the figures of all servers, and ``more``; returns the exit status."""
        simulated = set(self.outcomes) == {SIMULATOR}
        figures = [*self.figures(), *more]
        harness.print_table(figures)
        result = Result(
            f"{bench}-simulated" if simulated else bench,
            figures,
            simulated=simulated,
            model=self._model,
            versions={each.method.name: each.version for each in self.plan.methods},
            left_out=self.left_out,
            errors=[line for kind, outcome in self.outcomes.items() for line in _errors(kind, outcome)],
            details={
                "settings": {each.method.name: each.method.what for each in self.plan.methods},
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


def _streams(simulator: Simulator, workloads: Sequence[Workload]) -> PieceMaker:
    """Bytes of the simulator's own objects."""
    client = simulator.client(retries={"mode": "standard", "max_attempts": 5})
    buckets = {each: f"source-{number}" for number, each in enumerate(workloads)}
    keys: dict[Workload, list[str]] = {}
    for each, bucket in buckets.items():
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys[each] = [entry["Key"] for page in pages for entry in page["Contents"]]

    def read(each: Workload, file: int, start: int, length: int) -> bytes:
        answer = client.get_object(
            Bucket=buckets[each], Key=keys[each][file], Range=f"bytes={start}-{start + length - 1}"
        )
        return answer["Body"].read()

    def ahead(each: Workload) -> Iterator[tuple[tuple[int, int, int], bytes]]:
        """All pieces in order. Replies take as long as S3's would, so pieces are requested before they are needed."""
        under_way: deque[tuple[tuple[int, int, int], Future[bytes]]] = deque()
        with ThreadPoolExecutor(_PIECES_IN_FLIGHT) as threads:
            for piece in (
                (file, start, length)
                for file, size in enumerate(each.sizes().values())
                for start, length in workload.pieces(size)
            ):
                under_way.append((piece, threads.submit(read, each, *piece)))
                if len(under_way) == _PIECES_IN_FLIGHT:
                    first, content = under_way.popleft()
                    yield first, content.result()
            for piece, content in under_way:
                yield piece, content.result()

    def take(each: Workload, file: int, start: int, length: int) -> bytes:
        piece, content = next(made[each])
        assert piece == (file, start, length), "a workload is made once, from its first piece to its last"
        return content

    made = {each: ahead(each) for each in workloads}
    return take


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
