"""A share of a bucket with very many keys: what it takes to list all of them, and to start again.

``make bench-gateway-large`` serves a bucket of the simulator, which answers without delay: folders of many keys. A
client (libnfs) lists each folder with attributes. It prints the seconds, the memory of the gateway, and the bytes that
its state has on disk for each name. Then the gateway is killed by SIGKILL and started again, and a file that was open
before is read.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from harness import Memory  # noqa: E402
from support.gateways import ServedShares, WrittenShares, missing_libnfs, written_share  # noqa: E402
from support.libnfs import Share  # noqa: E402
from support.servers import S3Server  # noqa: E402
from support.sim import Simulator  # noqa: E402

AIM_MIB: Final = 256
AIM_BYTES: Final = 200
AIM_SECONDS: Final = 2.0


def state_bytes(folder: Path) -> int:
    """Bytes on disk of all files of a folder."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def verdict(value: float, aim: float) -> str:
    return "met" if value <= aim else "missed"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folders", type=int, default=10)
    parser.add_argument("--names", type=int, default=1_000_000, help="in each folder")
    parser.add_argument("--written", action="store_true", help="a share that clients may write to")
    arguments = parser.parse_args()
    if (missing := missing_libnfs()) is not None:
        sys.exit(missing)
    names = "run_{i:07}_S1_L001_R1_001.fastq.gz"
    objects = [
        {"keys": f"runs/f{number}/{names}", "count": arguments.names, "size": "4 KiB"}
        for number in range(arguments.folders)
    ]
    total = arguments.folders * arguments.names
    bucket = f"lab={json.dumps({'objects': objects})}"
    with Simulator("--instant", "--bucket", bucket) as simulator, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(simulator.environment())
        server = S3Server("versitygw", simulator.environment()["AWS_ENDPOINT_URL"])
        config = written_share("runs", "s3://lab/runs/")
        shares: ServedShares
        if arguments.written:
            shares = WrittenShares(folder, server, config)
        else:
            shares = ServedShares(folder, server, config.replace("read_only = false\n", ""))
        try:
            before = state_bytes(folder)
            client, memory = Share(shares.url("runs")), Memory(shares.process.pid)
            for number in range(arguments.folders):
                began = time.monotonic()
                found = client.count(f"f{number}")
                took = time.monotonic() - began
                print(f"f{number}: {found:,} names in {took:.1f} s; {memory}", flush=True)
                assert found == arguments.names, found
            memory.end()
            each = (state_bytes(folder) - before) / total
            print(f"memory: {memory.peak} MiB, the aim of {AIM_MIB} is {verdict(memory.peak, AIM_MIB)}")
            print(f"state: {each:.0f} bytes on disk for a name, the aim of {AIM_BYTES} is {verdict(each, AIM_BYTES)}")
            file = client.open("f0/" + names.format(i=arguments.names // 2))
            shares.process.kill()
            began = time.monotonic()
            shares.restart()
            served, memory = time.monotonic() - began, Memory(shares.process.pid)
            print(f"served again after {served:.2f} s, the aim of {AIM_SECONDS:g} is {verdict(served, AIM_SECONDS)}")
            began = time.monotonic()
            body = client.read(file, ctypes.create_string_buffer(4096))
            took = time.monotonic() - began
            print(f"a file that was open before is read after {took:.2f} s: {len(body)} bytes", flush=True)
            memory.end()
            print(f"memory after that: {memory}")
        finally:
            shares.close()


if __name__ == "__main__":
    main()
