"""A gateway with many files that wait, killed and started again: the time until it serves them.

``make bench-gateway-restart`` writes files of 1 KiB to a share by libnfs, several clients at a time. Each file is
committed. It kills the gateway by SIGKILL, starts it again, and reads one of the files. It prints the files written
each second, the seconds until the share is served, and those until the file is read, with the CPU time of the gateway.
It then drains the gateway, and prints how long that takes and whether each file is one version in the bucket. The aim
is 2 s with 100,000 files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import nfs_files  # noqa: E402
from support.gateways import WrittenShares, missing_libnfs, read, written_share  # noqa: E402
from support.own_server import OwnServer  # noqa: E402

AIM_SECONDS: Final = 2.0
CLIENTS: Final = 8


def _write(shares: WrittenShares, files: int) -> float:
    """Seconds until all files are committed."""
    began = time.monotonic()
    program = Path(nfs_files.__file__)
    share = files // CLIENTS
    clients = [
        subprocess.Popen([sys.executable, "-I", program, shares.url("runs"), f"c{client}-", str(share)])
        for client in range(CLIENTS)
    ]
    ended = [client.wait() for client in clients]
    if any(ended):
        sys.exit("a client has failed")
    return time.monotonic() - began


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    # After the name of the command, which may have spaces.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--drain", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    if (missing := missing_libnfs()) is not None:
        sys.exit(missing)
    files = arguments.files // CLIENTS * CLIENTS
    with tempfile.TemporaryDirectory(prefix="seqferry-restart-", dir=ROOT / "target") as name:
        own = OwnServer(Path(name))
        bucket = own.server.create_bucket(versioned=True)
        shares = WrittenShares(Path(name), own.server, written_share("runs", f"s3://{bucket}/runs/", "settle = 86400"))
        try:
            took = _write(shares, files)
            print(f"{files} files in {took:.1f} s: {files / took:.0f}/s", flush=True)
            shares.process.kill()
            began = time.monotonic()
            shares.restart()
            served = time.monotonic() - began
            assert read(shares, "runs/c0-7") == nfs_files.BODY
            seen = time.monotonic() - began
            verdict = "met" if seen <= AIM_SECONDS else "missed"
            cpu, load = _cpu_seconds(shares.process.pid), os.getloadavg()[0]
            print(f"served after {served:.2f} s, a file read after {seen:.2f} s: the aim is {verdict}")
            print(f"the gateway took {cpu:.2f} s of CPU; {load:.1f} processes were at work", flush=True)
            assert shares.writing()["dirty_files"] == files
            if arguments.drain:
                began = time.monotonic()
                shares.ask("drain", deadline=3600.0)
                took = time.monotonic() - began
                versions = own.versions(bucket)
                whole = "each is one version" if len(versions) == len(set(versions)) == files else "NOT EACH IS ONE"
                print(f"drained in {took:.1f} s: {files / took:.0f}/s, {whole}")
        finally:
            shares.close()
            own.stop()


if __name__ == "__main__":
    main()
