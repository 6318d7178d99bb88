"""The experiments: files written by ``dd`` with synchronous output, and mixed work of several jobs by ``fio``.

Sizes are those of the post where ``size`` is 1 GiB, and scale with it: 1,000 blocks of 1 MiB, files of 1, 3 and 5 GiB,
and two files of 4 GiB for each of four jobs of fio.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from seqferry.model.errors import UsageError
from seqferry.model.formatting import size as shown
from seqferry.model.frozen import frozen
from seqferry.settings.sizes import parse_size

MIB: Final = 2**20
GIB: Final = 2**30
Kind = Literal["small", "large", "async"]
"""The chart that an experiment belongs to."""

_BLOCKS: Final = 1000
_LARGE: Final = (1, 3, 5)
"""Sizes of large files, in multiples of ``size``."""
_MOST_BLOCK: Final = 64 * MIB
"""Largest block of a large file: dd holds one in memory."""
JOBS: Final = 4
FILES: Final = 2
_JOB: Final = 8
"""Bytes of the files of a job, in multiples of ``size``."""
_ROUNDS_OF_OTHERS: Final = 4
"""Small files are written so many times as often as the others: 12 rounds take 3 of these."""
MOST_ROUNDS: Final = 100
MOST_SECONDS: Final = 86_400
MOST_SIZE: Final = 64 * GIB

FIO: Final = {
    "randrw": "random, 25 % reads",
    "write": "sequential writes",
    "read": "sequential reads",
    "randwrite": "random writes",
    "randread": "random reads",
}


def parse(written: str) -> int:
    """The option ``--size``.

    Raises:
        UsageError: it is no size.
    """
    try:
        return parse_size(written)
    except ValueError as why:
        raise UsageError(f"--size {written}: {why}.") from None


@frozen
class GatewayParameters:
    """Parameters of the comparison; invalid ones are refused.

    Attributes:
        size: of the medium file; all others scale with it.
        seconds: longest run of fio; 0: until all is read and written.
    """

    size: int = GIB
    rounds: int = 12
    seconds: int = 60

    def __post_init__(self) -> None:
        """Raises UsageError for values that are not valid."""
        if not MIB <= self.size <= MOST_SIZE or self.size % MIB:
            raise UsageError(f"--size {shown(self.size)}: choose whole MiB, 1 MiB to 64 GiB.")
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise UsageError(f"--rounds {self.rounds}: choose 1 to {MOST_ROUNDS}.")
        if not 0 <= self.seconds <= MOST_SECONDS:
            raise UsageError(f"--seconds {self.seconds}: choose 1 to {MOST_SECONDS:,}, or 0 for no limit.")


@frozen
class Experiment:
    """One experiment.

    Attributes:
        block, blocks: of dd.
        flags: ``oflag`` of dd.
        pattern: ``readwrite`` of fio; None: it is one of dd.
        rounds: how often it is run on each folder.
    """

    name: str
    title: str
    kind: Kind
    bytes: int
    rounds: int
    block: int = MIB
    blocks: int = 0
    flags: str = ""
    pattern: str | None = None

    @property
    def direct(self) -> bool:
        """True when it needs a file system that takes O_DIRECT."""
        return "direct" in self.flags


def experiments(asked: GatewayParameters, *, fio: bool) -> list[Experiment]:
    """All experiments in their order; those of fio where it is installed."""
    others = -(-asked.rounds // _ROUNDS_OF_OTHERS)
    blocks = max(10, round(_BLOCKS * asked.size / GIB))
    found = [
        _write_experiment("small-dsync", "small", blocks, MIB, "dsync", asked.rounds),
        _write_experiment("small-direct", "small", blocks, MIB, "direct,dsync", asked.rounds),
    ]
    block = math.gcd(asked.size, _MOST_BLOCK)
    found += [
        _write_experiment(f"large-{times}", "large", times * asked.size // block, block, "dsync", others)
        for times in _LARGE
    ]
    if fio:
        total = JOBS * _JOB * asked.size
        found += [
            Experiment(
                f"fio-{pattern}", f"{title}, {whole(total)} in {JOBS} jobs", "async", total, others, pattern=pattern
            )
            for pattern, title in FIO.items()
        ]
    return found


def rounds_for(runs: int, *, small: bool) -> int:
    """The option ``--rounds`` with which an experiment of small files, or another one, is run so often."""
    return runs if small else (runs - 1) * _ROUNDS_OF_OTHERS + 1


def _write_experiment(name: str, kind: Kind, blocks: int, block: int, flags: str, rounds: int) -> Experiment:
    what = f"{blocks:,} blocks of {whole(block)}" if kind == "small" else f"a file of {whole(block * blocks)}"
    return Experiment(name, f"{what}, {flags}", kind, block * blocks, rounds, block=block, blocks=blocks, flags=flags)


def whole(amount: int) -> str:
    """A size of whole MiB or GiB in words."""
    return f"{amount // GIB} GiB" if amount % GIB == 0 else f"{amount // MIB:,} MiB"


def job_bytes(asked: GatewayParameters) -> int:
    """Bytes of the files of one job of fio."""
    return _JOB * asked.size


def room(asked: GatewayParameters, *, fio: bool) -> int:
    """Bytes that a folder must have free: the largest files that lie in it at a time, and some."""
    largest = max(each.bytes for each in experiments(asked, fio=fio))
    return largest + max(largest // 50, 16 * MIB)
