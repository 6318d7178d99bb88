"""``seqferry bench transfer`` from what was typed to the files of the report; the command line only shows it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from seqferry.bench import baselines, methods, output, plots, transfer, workload
from seqferry.bench.page import page
from seqferry.bench.report import document
from seqferry.bench.storage import Acceleration, Storage, connect
from seqferry.bench.transfer import ComparisonParameters, Outcome, Plan, ProgressListener
from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.formatting import count, size
from seqferry.model.prices import cost
from seqferry.settings.sizes import parse_size
from seqferry.spec.addresses import parse_uri

DEFAULT_WORKLOADS: Final = ("1x128MiB", "100x64KiB")
"""A big file and many small ones, of a size that takes minutes on a usual line."""
ACCELERATIONS: Final = ("auto", "on", "off")
_MOST_DIGITS: Final = 9
_WILDCARDS: Final = frozenset("*?[]{}")


def ask(
    *,
    workloads: Sequence[str],
    direction: str,
    names: Sequence[str],
    threads: Sequence[str],
    part_sizes: Sequence[str],
    warm_up: int,
    repetitions: int,
    seed: int | None,
    threads_up: Sequence[str] = (),
    threads_down: Sequence[str] = (),
    acceleration: str = "auto",
) -> ComparisonParameters:
    """Parses the options of the command. Lists may be divided by commas as well.

    Raises:
        UsageError: a value is not valid.
    """
    return ComparisonParameters(
        workloads=tuple(dict.fromkeys(workload.parse(each) for each in _items(workloads) or DEFAULT_WORKLOADS)),
        directions=_directions(direction),
        methods=_methods(_items(names), acceleration),
        needs_acceleration=acceleration == "on",
        threads=_numbers("--threads", threads),
        threads_up=_numbers("--threads-up", threads_up),
        threads_down=_numbers("--threads-down", threads_down),
        part_sizes=tuple(dict.fromkeys(_part_size(each) for each in _items(part_sizes))),
        warm_up=warm_up,
        repetitions=repetitions,
        seed=random.SystemRandom().randrange(2**32) if seed is None else seed,
    )


def _items(given: Sequence[str]) -> list[str]:
    return [item.strip() for each in given for item in each.split(",") if item.strip()]


def _directions(written: str) -> tuple[methods.Direction, ...]:
    several = {"both": transfer.DIRECTIONS, "all": transfer.ALL_DIRECTIONS}
    if written in several:
        return several[written]
    for known in transfer.ALL_DIRECTIONS:
        if written == known:
            return (known,)
    raise UsageError(f"--direction {written}: choose upload, download, both, copy or all.")


def _numbers(option: str, given: Sequence[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_number(option, each) for each in _items(given)))


def _number(option: str, written: str) -> int:
    if not written.isascii() or not written.isdigit() or len(written) > _MOST_DIGITS:
        raise UsageError(f"{option} {written}: write numbers, for example 1,4,16.")
    return int(written)


def _methods(names: Sequence[str], acceleration: str) -> tuple[str, ...]:
    if acceleration not in ACCELERATIONS:
        raise UsageError(f"--acceleration {acceleration}: choose {', '.join(ACCELERATIONS)}.")
    wanted = tuple(dict.fromkeys(names)) or methods.NAMES
    accelerated = [name for name in wanted if name.endswith(methods.ACCELERATED)]
    if acceleration == "off":
        return tuple(name for name in wanted if name not in accelerated)
    if acceleration == "on" and not accelerated:
        raise UsageError("--acceleration on: --methods names none that goes through Transfer Acceleration.")
    return wanted


def _part_size(written: str) -> int:
    try:
        return parse_size(written)
    except ValueError as why:
        raise UsageError(f"--part-size {written}: {why}.") from None


@dataclass(frozen=True)
class PreparedComparison:
    """A comparison that can start: bucket and methods exist."""

    plan: Plan
    storage: Storage
    acceleration: Acceleration | None
    """None: no requested method would use it."""
    left_out: tuple[str, ...]
    origin: Storage | None = None
    """Bucket that copies are made from; None: the same."""
    baseline: baselines.Baseline | None = None
    """An earlier report that the figures are compared with."""

    def lines(self, *, keep: bool = False) -> list[str]:
        """Summary of the runs, traffic and price to come, printed before the bench asks for consent."""
        plan, place = self.plan, self.storage.place
        parameters, traffic = plan.parameters, plan.traffic
        found = [
            (
                f"{', '.join(each.name for each in parameters.workloads)}; {' and '.join(parameters.directions)}; "
                f"{count(len(plan.variants), 'method')} or settings of them, each {parameters.warm_up} times to warm "
                f"up and {parameters.repetitions} times measured: {count(plan.runs, 'run')}"
            ),
            (
                f"{size(traffic.bytes_up)} go up and {size(traffic.bytes_down)} come down in all, with what is read "
                f"back to verify; random data from --seed {parameters.seed}"
            ),
            (
                f"objects go below {place.uri}{f' and {self.origin.place.uri}' if self.origin else ''} and are "
                f"{'kept' if keep else 'removed at the end'}"
            ),
        ]
        if place.endpoint_url is None:
            found.append(
                f"on AWS that is about ${traffic.request_dollars:.2f} for requests, and about "
                f"${traffic.egress_dollars:.2f} for traffic unless this machine is in {place.region}"
                + (
                    f"; ${cost('acceleration', plan.accelerated_bytes):.2f} or more for acceleration"
                    if plan.accelerated_bytes
                    else ""
                )
            )
        if self.acceleration is not None and not self.acceleration.available:
            found.append(self.acceleration.why)
        return [*found, *self.left_out]

    def run(self, *, work_folder: Path | None, keep: bool, tell: ProgressListener) -> tuple[Outcome, dict[str, Any]]:
        """Does it; returns what came of it, and the document of it.

        Raises:
            UsageError, ConfigError: the work folder is of no use; nothing was done.
        """
        outcome = transfer.run(
            self.plan,
            self.storage,
            work_folder=work_folder,
            keep=keep,
            tell=tell,
            piece=workload.random_pieces(self.plan.parameters.seed),
            origin=self.origin,
        )
        return outcome, document(
            self.plan, self.storage.place, self.acceleration, self.left_out, outcome, self.baseline
        )


def prepare(
    target: str,
    parameters: ComparisonParameters,
    *,
    endpoint_url: str | None,
    profile: str | None,
    region: str | None,
    tools: Mapping[str, str] | None = None,
    baseline: Path | None = None,
    copy_from: str | None = None,
) -> PreparedComparison:
    """Finds the bucket and the methods.

    Raises:
        UsageError, ConfigError, StorageError: one of them cannot be used.
    """
    cases = [(each.name, direction) for each in parameters.workloads for direction in parameters.directions]
    earlier = None if baseline is None else baselines.read_baseline(baseline, cases)
    if copy_from is not None and "copy" not in parameters.directions:
        raise UsageError("--copy-from names the source of copies: give --direction copy or all with it.")
    places = [_fresh_prefix(each) for each in (target, copy_from) if each is not None]
    storage, *origins = [
        connect(bucket, prefix, endpoint_url=endpoint_url, profile=profile, region=region) for bucket, prefix in places
    ]
    wanted, unable = _by_directions(parameters)
    accelerated = any(each.accelerated and each.name in wanted for each in methods.METHODS)
    acceleration = storage.acceleration() if accelerated else None
    if parameters.needs_acceleration and not (acceleration and acceleration.available):
        raise ConfigError(f"--acceleration on: {acceleration.why if acceleration else 'no method would use it.'}")
    found, missing = methods.available(
        wanted, accelerated=acceleration is not None and acceleration.available, tools=tools
    )
    missing += unable
    if not found:
        reasons = [*missing, *([acceleration.why] if acceleration and not acceleration.available else [])]
        raise ConfigError(f"There is no method to measure. {'; '.join(reasons)}")
    return PreparedComparison(
        transfer.make_plan(parameters, found),
        storage,
        acceleration,
        tuple(missing),
        next(iter(origins), None),
        earlier,
    )


def _by_directions(parameters: ComparisonParameters) -> tuple[list[str], list[str]]:
    """The methods that can move in one of the directions, and a line for each that was named and cannot."""
    able = {each.name for each in methods.METHODS if set(each.directions) & set(parameters.directions)}
    unable = [name for name in parameters.methods if name not in able]
    ways = " or ".join(parameters.directions)
    lines = [f"{name} is left out: it does no {ways}" for name in unable if parameters.methods != methods.NAMES]
    return [name for name in parameters.methods if name in able], lines


def _fresh_prefix(uri: str) -> tuple[str, str]:
    bucket, key = parse_uri(uri)
    if _WILDCARDS & set(key):
        raise UsageError(f"{uri}: some of the tools take * ? [ ] {{ }} for patterns; choose a prefix without them.")
    above = f"{key}/" if key and not key.endswith("/") else key
    return bucket, f"{above}seqferry-bench-{transfer.fresh_id()}/"


def publish(result: dict[str, Any], folder: Path) -> tuple[list[Path], str | None]:
    """Writes the JSON file, the plots and the page; returns the files, and a line on what is missing if anything is.

    Raises:
        ConfigError: a file cannot be written.
    """
    return output.publish(
        result, folder, draw=plots.draw, page=page, earlier=("speed-", "cpu-", "threads-", "streams-")
    )
