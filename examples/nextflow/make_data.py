"""Writes small synthetic FASTQs and a reference of many small files: the same bytes each time.

Usage: make_data.py FOLDER [SAMPLES [REFERENCES]]
"""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path

READS = 200
BASES = 75


def main() -> None:
    folder = Path(sys.argv[1])
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    references = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    chooser = random.Random(20261124)
    (folder / "reads").mkdir(parents=True, exist_ok=True)
    for sample in range(samples):
        for mate in (1, 2):
            lines = [
                f"@S{sample}:{read}/{mate}\n{''.join(chooser.choices('ACGT', k=BASES))}\n+\n{'I' * BASES}\n"
                for read in range(READS + sample)
            ]
            path = folder / "reads" / f"sample{sample}_R{mate}.fastq.gz"
            path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    for number in range(references):
        path = folder / "reference" / f"chr{number % 5}" / f"part{number:04d}.fa"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f">part{number}\n{''.join(chooser.choices('ACGT', k=1000))}\n")


if __name__ == "__main__":
    main()
