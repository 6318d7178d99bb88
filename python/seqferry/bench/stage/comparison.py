"""The whole comparison: fetch the data once, make one tar of it, let each way stage it in turn, compare, remove.

The user's objects are read and never written. The archive goes below a fresh prefix of the bench's own and is removed
at the end, however that comes about.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from seqferry.bench import measure, rounds, verify
from seqferry.bench.methods import base_environment, environment_with_home
from seqferry.bench.rounds import Outcome
from seqferry.bench.stage import data as dataset
from seqferry.bench.stage.data import Dataset
from seqferry.bench.stage.staging import ARCHIVE, Staging, StagingMethod
from seqferry.bench.stage.staging_methods import NAMES, InstalledStagingMethods, available, unmount
from seqferry.bench.stopping import exit_as_interrupted
from seqferry.bench.storage import Storage, connect, redact
from seqferry.bench.transfer import fresh_id
from seqferry.bench.workload import Digests, pieces
from seqferry.model.errors import ConfigError, SeqferryError, StorageError, UsageError
from seqferry.model.frozen import frozen
from seqferry.spec.addresses import parse_uri

MOST_TASKS: Final = 10**9
_WILDCARDS: Final = frozenset("*?[]{}")
_TAR_BLOCK: Final = 512


@frozen
class StageParameters:
    """Parameters of a comparison; invalid ones are refused."""

    ways: tuple[str, ...] = NAMES
    read: float = 5.0
    """Percent of the files that are read in place."""
    tasks: int = 100
    """Number of tasks that savings are computed for."""
    warm_up: int = 1
    repetitions: int = 3

    def __post_init__(self) -> None:
        """Raises UsageError for values that are not valid."""
        unknown = [name for name in self.ways if name not in NAMES]
        if unknown:
            raise UsageError(f"--ways {', '.join(unknown)}: there is no such way. There are: {', '.join(NAMES)}.")
        if not 0 < self.read <= 100:
            raise UsageError(f"--read {self.read:g}: choose more than 0 and at most 100 percent.")
        if not 1 <= self.tasks <= MOST_TASKS:
            raise UsageError(f"--tasks {self.tasks}: choose 1 to {MOST_TASKS:,}.")
        rounds.check_repetitions(self.repetitions, self.warm_up)


@dataclass(frozen=True)
class StagePlan:
    """A comparison that can start: the data was listed, and the programs were found."""

    parameters: StageParameters
    storage: Storage
    """The place of the archive."""
    key: str
    """Prefix of the data in its bucket."""
    source: Storage
    data: Dataset
    installed: InstalledStagingMethods
    read: tuple[str, ...]
    """Names that are read in place."""

    @property
    def runs(self) -> int:
        """Warming up included."""
        return len(self.installed.ways) * (self.parameters.warm_up + self.parameters.repetitions)

    @property
    def archive_bytes(self) -> int:
        """Size of the tar, about: of names longer than a header's field it has more."""
        return sum(_TAR_BLOCK + -(-each // _TAR_BLOCK) * _TAR_BLOCK for each in self.data.files.values())

    @property
    def disk_bytes(self) -> int:
        """Room that is needed in the work folder: the data twice, or once beside the archive."""
        return self.data.total + max(self.data.total, self.archive_bytes) + rounds.ROOM


@frozen
class StageRun:
    """One run. Its cost counts only when ``error`` is None."""

    way: str
    round: int
    """From 0; -1: warming up."""
    cost: measure.Cost | None
    error: str | None = None
    mismatch: bool = False


class StageListener(Protocol):
    """Receives the progress of a comparison."""

    def say(self, line: str) -> None: ...
    def ran(self, run: StageRun) -> None: ...


@dataclass
class StageOutcome(Outcome[StageRun]):
    """Result of a comparison, also of one that was stopped half-way."""

    left_out: list[str] = field(default_factory=list[str])
    archive_bytes: int = 0


def prepare(
    target: str,
    parameters: StageParameters,
    *,
    scratch: str | None,
    endpoint_url: str | None,
    profile: str | None,
    region: str | None,
) -> StagePlan:
    """Looks at the data and for the programs. Writes nothing.

    Raises:
        UsageError, ConfigError, StorageError: one of them cannot be used.
    """
    bucket, key = parse_uri(target)
    key = f"{key}/" if key and not key.endswith("/") else key
    scratch_bucket, above = parse_uri(scratch) if scratch is not None else (bucket, "")
    above = f"{above}/" if above and not above.endswith("/") else above
    for uri, name in ((target, key), (scratch or "", above)):
        if _WILDCARDS & set(name):
            raise UsageError(f"{uri}: some of the tools take * ? [ ] {{ }} for patterns; choose a prefix without them.")
    if scratch_bucket == bucket and above.startswith(key):
        raise UsageError(
            f"The archive of the bench would lie among the data of {target}. Give another bucket or prefix for it with "
            "--scratch."
        )
    source = connect(bucket, key, endpoint_url=endpoint_url, profile=profile, region=region)
    prefix = f"{above}seqferry-bench-{fresh_id()}/"
    storage = connect(scratch_bucket, prefix, endpoint_url=endpoint_url, profile=profile, region=region)
    data = dataset.look(source, key)
    installed = available(parameters.ways)
    if not installed.ways:
        raise ConfigError(f"There is no way to measure. {'; '.join(installed.left_out)}")
    return StagePlan(parameters, storage, key, source, data, installed, tuple(data.share(parameters.read)))


def run(plan: StagePlan, *, work_folder: Path | None, tell: StageListener) -> StageOutcome:
    """Does it all. Whatever happens, what was made is removed, or the outcome tells what is left.

    Raises:
        UsageError, ConfigError: the work folder cannot be used, or has too little room; nothing was done.
    """
    outcome = StageOutcome(left_out=list(plan.installed.left_out))
    folder = rounds.make_work_folder(work_folder, plan.disk_bytes, "a smaller prefix")
    with exit_as_interrupted():
        try:
            with outcome.noted(folder):
                _Runner(plan, folder, tell, outcome).all()
        finally:
            outcome.left = _tidy(plan.storage, folder)
    return outcome


def _tidy(storage: Storage, folder: Path) -> str | None:
    left: list[str] = []
    # Each by itself: one that fails, or is interrupted, must not keep the others.
    try:
        storage.remove(storage.place.prefix)
    except (KeyboardInterrupt, SeqferryError) as error:
        why = error.message.rstrip(".") if isinstance(error, SeqferryError) else "interrupted"
        left.append(f"{storage.place.uri} ({why})")
    for mounted in folder.glob("run-*/mount"):
        try:
            is_gone = unmount(mounted, base_environment())
        except KeyboardInterrupt:
            is_gone = False
        if not is_gone:
            left.append(f"{mounted} (still mounted)")
    with contextlib.suppress(KeyboardInterrupt):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        left.append(str(folder))
    return f"Could not be removed: {'; '.join(left)}. Remove it by hand." if left else None


class _Runner:
    def __init__(self, plan: StagePlan, folder: Path, tell: StageListener, outcome: StageOutcome) -> None:
        self._plan = plan
        self._folder = folder
        self._tell = tell
        self._outcome = outcome
        self._digests: Digests = {}
        self._archive = b""
        self._read_sum: str | None = None
        self._names = folder / "names"
        self._plugins = folder / "plugins"
        measure.spread(folder)

    def all(self) -> None:
        plan = self._plan
        self._tell.say(f"reading {plan.data} once, to know what must arrive")
        reference = self._folder / "reference"
        reference.mkdir()
        self._digests = dataset.fetch(plan.source, plan.key, plan.data, reference)
        ways = self._with_archive(reference) if any(way.with_archive for way in plan.installed.ways) else []
        shutil.rmtree(reference)
        self._names.write_bytes(b"".join(name.encode() + b"\0" for name in plan.read))
        ways = [way for way in plan.installed.ways if not way.with_archive or way in ways]
        if any(way.with_plugin for way in ways):
            ways = self._with_plugin(ways)
        parameters = plan.parameters
        rounds.run_in_rounds(
            ways, self._once, self._record, warm_up=parameters.warm_up, rounds=range(parameters.repetitions)
        )

    def _with_archive(self, reference: Path) -> list[StagingMethod]:
        """Puts one tar of the data into the bucket; the ways that need one, none where it cannot be written."""
        plan = self._plan
        archive = self._folder / ARCHIVE
        self._archive = dataset.pack(plan.data, reference, archive)
        self._outcome.archive_bytes = archive.stat().st_size
        self._tell.say(f"writing one tar of it to {plan.storage.place.uri}")
        wanted = [way for way in plan.installed.ways if way.with_archive]
        try:
            plan.storage.put(self._folder, [ARCHIVE], plan.storage.place.prefix)
        except StorageError as error:
            why = f"{', '.join(way.name for way in wanted)}: left out, since the tar cannot be written: {error.message}"
            self._outcome.left_out.append(f"{why} Give a place for it with --scratch.")
            self._tell.say(self._outcome.left_out[-1])
            return []
        finally:
            archive.unlink()
        return wanted

    def _with_plugin(self, ways: list[StagingMethod]) -> list[StagingMethod]:
        """Installs the plugin of Nextflow for this comparison; the ways without those that need it, where it cannot."""
        command = f"{self._plan.installed.commands['seqferry']} nextflow install-plugin --plugins-dir"
        made = measure.run(
            ["sh", "-c", f'{command} "$0"', str(self._plugins)],
            environment=self._environment(),
            folder=self._folder,
        )
        why = made.failure
        if why is None:
            return ways
        wanted = ", ".join(way.name for way in ways if way.with_plugin)
        self._outcome.left_out.append(f"{wanted}: left out, since the plugin cannot be installed: {why}")
        self._tell.say(self._outcome.left_out[-1])
        return [way for way in ways if not way.with_plugin]

    def _record(self, run: StageRun) -> None:
        self._outcome.runs.append(run)
        self._tell.ran(run)

    def _once(self, way: StagingMethod, round_: int, _place: int) -> StageRun:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
        arrived, mount, scratch = folder / "arrived", folder / "mount", folder / "scratch"
        for each in (arrived, mount, scratch):
            each.mkdir()
        staging = Staging(
            self._plan.data.uri,
            self._plan.storage.place.uri,
            arrived,
            mount,
            self._names,
            self._plan.source.place.endpoint_url,
            self._plan.source.place.region,
            self._plan.installed.commands,
            self._plugins,
        )
        environment = {**self._environment(), **way.environment(staging)}
        cost, error, mismatch = None, None, False
        try:
            _write(way.files(staging), scratch)
            measure.sync(folder)  # what others have left to be written is not this run's
            cost = measure.run(["sh", "-c", way.script(staging)], environment=environment, folder=scratch)
            error = redact(cost.failure, environment)
            if error is None:
                error = self._differs(way, arrived)
                mismatch = error is not None
        except OSError as failed:
            error = f"it cannot be {'run' if cost is None else 'checked'}: {failed.strerror or failed}"
        finally:
            unmount(mount, environment)
            shutil.rmtree(folder, ignore_errors=True)
        return StageRun(way.name, round_, cost, error, mismatch)

    def _differs(self, way: StagingMethod, arrived: Path) -> str | None:
        if way.delivers in ("files", "task"):
            return verify.files(arrived, self._plan.data.files, self._digests)
        if way.delivers == "archive":
            return None if dataset.digest_of(arrived / ARCHIVE) == self._archive else "the archive differs"
        said = (arrived / "sum").read_text().split()
        return None if said[:1] == [self._sum_of_read()] else "not what is stored: what was read in place differs"

    def _sum_of_read(self) -> str:
        """SHA-256 of the contents that are read in place, one after the other; computed once."""
        if self._read_sum is None:
            digest = hashlib.sha256()
            for name in self._plan.read:
                for start, length in pieces(self._plan.data.files[name]):
                    digest.update(self._plan.source.read(self._plan.key + name, start, length))
            self._read_sum = digest.hexdigest()
        return self._read_sum

    def _environment(self) -> dict[str, str]:
        return {**environment_with_home(self._folder / "home"), **self._plan.source.environment()}


def _write(files: dict[str, str], folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.write_text(content)
        path.chmod(0o755 if content.startswith("#!") else 0o644)
