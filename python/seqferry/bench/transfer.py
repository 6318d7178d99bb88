"""The whole comparison: make data, let each method move it in turn, verify, remove.

Rounds: in each one every variant runs once, in an order that rotates, so that a slow minute of the machine or the
network hits all alike. Every run is a process started anew, an upload goes to a prefix of its own, a download into an
empty folder. Only the time from the start of that process to its end is measured; what has arrived is compared with
what was made after that, and a run whose bytes differ has failed and has no speed.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from seqferry.bench import measure, prices, rounds, verify
from seqferry.bench.machine import load
from seqferry.bench.methods import METHODS, MIB, NAMES, Direction, InstalledMethod, Job, Variant, environment
from seqferry.bench.stopping import exit_as_interrupted
from seqferry.bench.storage import Storage, redact
from seqferry.bench.workload import Digests, PieceMaker, Workload, write
from seqferry.model.errors import ConfigError, SeqferryError, StorageError, UsageError
from seqferry.model.formatting import size
from seqferry.model.frozen import frozen

DIRECTIONS: Final[tuple[Direction, ...]] = ("upload", "download")
"""Those of files, which are measured by default."""
ALL_DIRECTIONS: Final[tuple[Direction, ...]] = (*DIRECTIONS, "copy")
MOST_THREADS: Final = 1024
MIN_PART_SIZE: Final = 5 * MIB
"""S3's limit."""


@frozen
class ComparisonParameters:
    """Parameters of a comparison; invalid ones are refused."""

    workloads: tuple[Workload, ...]
    directions: tuple[Direction, ...] = DIRECTIONS
    methods: tuple[str, ...] = NAMES
    threads: tuple[int, ...] = ()
    """Numbers of threads to try, for the methods that take one; empty: their own choice."""
    threads_up: tuple[int, ...] = ()
    """The same for uploads alone; empty: as ``threads``."""
    threads_down: tuple[int, ...] = ()
    """The same for downloads alone."""
    part_sizes: tuple[int, ...] = ()
    needs_acceleration: bool = False
    """True: a bucket without Transfer Acceleration is refused."""
    warm_up: int = 1
    repetitions: int = 3
    first_round: int = 0
    """Number of the round with which the rotation begins, for a caller that runs one round at a time."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises UsageError for values that are not valid."""
        unknown = [name for name in self.methods if name not in NAMES]
        if unknown:
            raise UsageError(f"--methods {', '.join(unknown)}: there is no such method. There are: {', '.join(NAMES)}.")
        wrong = [name for name in self.directions if name not in ALL_DIRECTIONS]
        if wrong:
            raise UsageError(f"--direction {', '.join(wrong)}: choose upload, download, both, copy or all.")
        if not (self.workloads and self.directions and self.methods):
            raise UsageError("Nothing to compare: give at least one workload, one direction and one method.")
        rounds.check_repetitions(self.repetitions, self.warm_up)
        for option, numbers in (
            ("--threads", self.threads),
            ("--threads-up", self.threads_up),
            ("--threads-down", self.threads_down),
        ):
            for threads in numbers:
                if not 1 <= threads <= MOST_THREADS:
                    raise UsageError(f"{option} {threads}: choose 1 to {MOST_THREADS}.")
        for part_size in self.part_sizes:
            if not MIN_PART_SIZE <= part_size <= 5 * 1024 * MIB:
                raise UsageError(f"--part-size {size(part_size)}: S3 takes parts of 5 MiB to 5 GiB.")
            if part_size % MIB:
                raise UsageError(f"--part-size {part_size}: choose whole MiB, since s5cmd knows no others.")

    def numbers(self, direction: Direction) -> tuple[int, ...]:
        """Numbers of threads to try in a direction."""
        own = {"upload": self.threads_up, "download": self.threads_down}.get(direction, ())
        return own or self.threads


@frozen
class Plan:
    """Runs of a comparison: its parameters, the methods found, and the variants that are run."""

    parameters: ComparisonParameters
    methods: tuple[InstalledMethod, ...]
    by_direction: Mapping[Direction, tuple[tuple[InstalledMethod, Variant], ...]]

    def variants_of(self, direction: Direction) -> tuple[tuple[InstalledMethod, Variant], ...]:
        """Those that are run in a direction."""
        return self.by_direction[direction]

    @property
    def variants(self) -> list[tuple[InstalledMethod, Variant]]:
        """Those of all directions, each once."""
        found: dict[Variant, InstalledMethod] = {}
        for variants in self.by_direction.values():
            found |= {variant: method for method, variant in variants if variant not in found}
        return [(method, variant) for variant, method in found.items()]

    @property
    def runs(self) -> int:
        """Warming up included."""
        parameters = self.parameters
        each = parameters.warm_up + parameters.repetitions
        return len(parameters.workloads) * sum(map(len, self.by_direction.values())) * each

    @property
    def traffic(self) -> prices.Traffic:
        """All bytes that move, preparing and reading back included."""
        parameters, parts = self.parameters, list[prices.Traffic]()
        each = parameters.warm_up + parameters.repetitions
        for workload in parameters.workloads:
            if variants := len(self.by_direction.get("upload", ())):
                parts += [prices.upload(workload)] * (variants * each)
                parts += [prices.download(workload)] * (variants * parameters.repetitions)
            if variants := len(self.by_direction.get("download", ())):
                parts += [prices.upload(workload), *[prices.download(workload)] * (variants * each)]
            if variants := len(self.by_direction.get("copy", ())):
                parts += [prices.upload(workload), *[prices.copy(workload)] * (variants * each)]
                parts += [prices.download(workload)] * (variants * parameters.repetitions)
        return prices.total(parts)

    @property
    def accelerated_bytes(self) -> int:
        """Bytes that go through Transfer Acceleration and cost extra."""
        parameters = self.parameters
        runs = parameters.warm_up + parameters.repetitions
        variants = sum(found.method.accelerated for variants in self.by_direction.values() for found, _ in variants)
        return sum(each.total for each in parameters.workloads) * variants * runs

    @property
    def disk_bytes(self) -> int:
        """Room that is needed in the work folder: the files, what one download makes of them, and some."""
        biggest = max(workload.total for workload in self.parameters.workloads)
        return biggest * (2 if "download" in self.parameters.directions else 1) + rounds.ROOM


def make_plan(parameters: ComparisonParameters, methods: Sequence[InstalledMethod]) -> Plan:
    """Every method with every setting that it takes.

    Raises:
        ConfigError: none of the methods is installed.
    """
    if not methods:
        raise ConfigError("None of the requested methods is installed.")
    variants: dict[Direction, tuple[tuple[InstalledMethod, Variant], ...]] = {
        direction: _variants(parameters, methods, direction) for direction in parameters.directions
    }
    empty = [direction for direction, found in variants.items() if not found]
    if empty:
        can = [each.name for each in METHODS if empty[0] in each.directions]
        raise UsageError(f"--direction {empty[0]}: none of the methods does that. These do: {', '.join(can)}.")
    return Plan(parameters, tuple(methods), variants)


def _variants(
    parameters: ComparisonParameters, methods: Sequence[InstalledMethod], direction: Direction
) -> tuple[tuple[InstalledMethod, Variant], ...]:
    variants: list[tuple[InstalledMethod, Variant]] = []
    for found in (each for each in methods if direction in each.method.directions):
        numbers = parameters.numbers(direction) if found.method.threads else ()
        own = (None,) if found.method.tunes_itself or not numbers else ()
        for threads in (*numbers, *own):
            part_sizes = parameters.part_sizes if found.method.part_size and parameters.part_sizes else (None,)
            variants += [(found, Variant(found.method.name, threads, part_size)) for part_size in part_sizes]
    return tuple(variants)


@frozen
class MeasuredRun:
    """One run. Its cost counts only when ``error`` is None."""

    workload: Workload
    direction: Direction
    variant: Variant
    round: int
    """Number of the round, from 0; -1: warming up."""
    place: int
    """Its place in the order of the round, from 0."""
    load_before: float
    cost: measure.Cost | None
    error: str | None = None
    mismatch: bool = False
    """The error is that the bytes which arrived were not those that were sent."""
    sync_s: float | None = None
    """Seconds that the system took to write the files to the disk after a download that succeeded."""

    @property
    def speed(self) -> float | None:
        """Bytes per second, of a download until its bytes are on the disk; None when the run failed.

        Some tools sync what they download and others do not: all are measured to the same end.
        """
        if self.error is not None or self.cost is None:
            return None
        return self.workload.total / (self.cost.wall_s if self.on_disk_s is None else self.on_disk_s)

    @property
    def on_disk_s(self) -> float | None:
        """Seconds until a power cut would have cost nothing: most tools end before."""
        if self.error is not None or self.cost is None or self.sync_s is None:
            return None
        return self.cost.wall_s + self.sync_s

    @property
    def cpu_per_gib(self) -> float | None:
        if self.error is not None or self.cost is None:
            return None
        return self.cost.cpu_s * 2**30 / self.workload.total


class ProgressListener(Protocol):
    """Receives the progress of a comparison."""

    def say(self, line: str) -> None: ...
    def ran(self, run: MeasuredRun) -> None: ...


Outcome = rounds.Outcome[MeasuredRun]


def fresh_id() -> str:
    return secrets.token_hex(6)


def run(
    plan: Plan,
    storage: Storage,
    *,
    work_folder: Path | None,
    keep: bool,
    tell: ProgressListener,
    piece: PieceMaker,
    origin: Storage | None = None,
) -> Outcome:
    """Does it all. Whatever happens, what was made is removed, or the outcome tells what is left.

    Args:
        work_folder: where files lie meanwhile, in a folder of their own; None: the system's temporary folder.
        keep: leave the objects. Files are removed all the same.
        origin: bucket that copies are made from; None: the same.

    Raises:
        UsageError, ConfigError: the work folder cannot be used, or has too little room; nothing was done.
    """
    outcome = Outcome()
    storages = [storage] if origin is None else [storage, origin]
    folder = rounds.make_work_folder(work_folder, plan.disk_bytes, "a smaller --workload")
    with exit_as_interrupted():
        try:
            with outcome.noted(folder):
                _Runner(plan, storages, folder, tell, piece, outcome.runs, keep=keep).all()
        finally:
            outcome.left = _tidy(storages, folder, tell, stopped=outcome, keep=keep)
    return outcome


def _tidy(
    storages: Sequence[Storage], folder: Path, tell: ProgressListener, *, stopped: Outcome, keep: bool
) -> str | None:
    if keep:
        tell.say(f"kept, as requested: {' and '.join(each.place.uri for each in storages)}")
    elif stopped.interrupted:
        tell.say("Stopped. Removing what was written; once more Ctrl-C leaves it.")
    left: list[str] = []
    for storage in () if keep else storages:
        try:
            storage.remove(storage.place.prefix)
        except KeyboardInterrupt:
            stopped.interrupted = True
            left.append(f"{storage.place.uri} (interrupted)")
        except SeqferryError as error:
            left.append(f"{storage.place.uri} ({error.message.rstrip('.')})")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        left.append(str(folder))
    if not left:
        return None
    return f"Could not be removed: {'; '.join(left)}. Remove it by hand, and abort unfinished uploads below it."


class _Runner:
    def __init__(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        folder: Path,
        tell: ProgressListener,
        piece: PieceMaker,
        runs: list[MeasuredRun],
        *,
        keep: bool,
    ) -> None:
        self._plan = plan
        self._parameters = plan.parameters
        self._storage = storages[0]
        self._origin = storages[-1]
        """The bucket that copies are made from."""
        self._folder = folder
        self._tell = tell
        self._piece = piece
        self._runs = runs
        self._keep = keep
        self._homes: dict[Variant, Path] = {}
        measure.spread(folder)

    def all(self) -> None:
        for number, workload in enumerate(self._parameters.workloads):
            self._tell.say(f"{workload.name}: making {workload}")
            source = self._new_folder("source")
            made = write(source, workload, self._piece)
            for direction in self._parameters.directions:
                below = f"{self._storage.place.prefix}{number}-{direction}/"
                if direction == "download":
                    self._tell.say(f"{workload.name}: writing the objects that are to be downloaded")
                    self._storage.put(source, workload.sizes(), below)
                if direction == "copy":
                    self._tell.say(f"{workload.name}: writing the objects that are to be copied")
                    self._origin.put(source, workload.sizes(), self._origin_prefix(below))
                self._rounds(workload, direction, below, source, made)
                self._remove(below)
                if direction == "copy" and not self._keep:
                    self._origin.remove(self._origin_prefix(below))
            shutil.rmtree(source)

    def _origin_prefix(self, below: str) -> str:
        return f"{self._origin.place.prefix}{below.removeprefix(self._storage.place.prefix)}source/"

    def _rounds(self, workload: Workload, direction: Direction, below: str, source: Path, made: Digests) -> None:
        def once(variant: tuple[InstalledMethod, Variant], round_: int, place: int) -> MeasuredRun:
            return self._once(*variant, workload, direction, round_, place, below, source, made)

        first = self._parameters.first_round
        rounds.run_in_rounds(
            self._plan.variants_of(direction),
            once,
            self._record,
            warm_up=self._parameters.warm_up,
            rounds=range(first, first + self._parameters.repetitions),
        )

    def _record(self, run: MeasuredRun) -> None:
        self._runs.append(run)
        self._tell.ran(run)

    def _once(
        self,
        found: InstalledMethod,
        variant: Variant,
        workload: Workload,
        direction: Direction,
        round_: int,
        place: int,
        below: str,
        source: Path,
        made: Digests,
    ) -> MeasuredRun:
        """One run, into a prefix or for a download into a folder of its own, which is removed after it."""
        upload = direction != "download"
        into = f"{below}{round_ + 1}-{place}/" if upload else below
        folder = source if upload else self._new_folder("arrived")
        job = Job(
            self._storage.place,
            into,
            direction,
            folder,
            workload.files,
            variant,
            self._home(variant),
            (self._origin.place.bucket, self._origin_prefix(below)),
        )
        credentials = self._storage.environment()
        load_before = load()
        error, mismatch, cost, sync_s = None, False, None, None
        try:
            if not upload:
                measure.sync(folder)  # what others have left to be written is not this run's
            cost = self._measure(found, job, credentials)
            error = redact(cost.failure, credentials)
            if error is None and not upload:
                sync_s = measure.sync(folder)
            if error is None and round_ >= 0:
                error = (
                    verify.objects(self._storage, into, workload.sizes(), made)
                    if upload
                    else verify.files(folder, workload.sizes(), made)
                )
                mismatch = error is not None
        except OSError as failed:
            error = f"it cannot be {'run' if cost is None else 'checked'}: {failed.strerror or failed}"
        except StorageError as failed:
            error = f"what it wrote cannot be read back: {failed.message}"
        finally:
            if not upload:
                shutil.rmtree(folder, ignore_errors=True)
        if upload:
            self._remove(into)
        if error is not None:
            # Records of a run that failed are no start for the next one: it might go on with that one's work.
            shutil.rmtree(self._homes.pop(variant), ignore_errors=True)
        return MeasuredRun(workload, direction, variant, round_, place, load_before, cost, error, mismatch, sync_s)

    def _measure(self, found: InstalledMethod, job: Job, credentials: Mapping[str, str]) -> measure.Cost:
        scratch = self._new_folder("scratch")
        try:
            return measure.run(found.call(job), environment=environment(found, job, credentials), folder=scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _remove(self, below: str) -> None:
        """While it goes on, so that no more is stored than one run has written."""
        if not self._keep:
            self._storage.remove(below)

    def _home(self, variant: Variant) -> Path:
        if variant not in self._homes:
            self._homes[variant] = self._new_folder("home")
        return self._homes[variant]

    def _new_folder(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder))
