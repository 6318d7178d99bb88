"""A sequencer at a share: files that grow in pieces of 64 KiB and get their names when they are whole, with faults.

``make bench-gateway-soak`` has some clients of libnfs write 200 files of 1 to 200 MB, each as ``NAME.tmp`` in pieces of
64 KiB, synced, closed and renamed. Meanwhile the storage refuses some requests of uploads (``SlowDown``), and once none
of its requests is answered for some time. When everything is uploaded, each file of the bucket is compared, and has to
be one version; no upload may be open. It prints how long writing took, and when the bucket had all of it.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import share_client  # noqa: E402
from support.gateways import WrittenShares, missing_libnfs, written_share  # noqa: E402
from support.own_server import OwnServer  # noqa: E402
from support.proxy import Proxy, reset, slow_down  # noqa: E402
from support.servers import MOVER  # noqa: E402

MB: Final = 1_000_000
THROTTLED: Final = ("PutObject", "UploadPart", "CreateMultipartUpload", "CompleteMultipartUpload")


def _write(shares: WrittenShares, name: str, size: int) -> float:
    """Write a file. Returns the time of its end, in seconds of the monotonic clock."""
    client = [sys.executable, "-I", share_client.__file__, shares.url("runs"), "append", name, "0", str(size)]
    subprocess.run(client, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic()


def _sha256(name: str, size: int) -> str:
    digest, step = hashlib.sha256(), share_client.APPENDED
    for number in range(-(-size // step)):
        digest.update(share_client.piece(name, number, min(step, size - number * step)))
    return digest.hexdigest()


def _troubles(own: OwnServer, bucket: str, files: dict[str, int]) -> list[str]:
    """What the bucket has otherwise than it was written."""
    client, versions = own.server.client(MOVER), own.versions(bucket)
    expected = sorted(f"runs/{name}" for name in files)
    troubles = [] if versions == expected else [f"{len(versions)} versions of {len(files)} files"]
    if opened := client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        troubles.append(f"{len(opened)} open uploads")

    def is_other(name: str) -> bool:
        digest, body = hashlib.sha256(), client.get_object(Bucket=bucket, Key=f"runs/{name}")["Body"]
        while part := body.read(share_client.PIECE):
            digest.update(part)
        return digest.hexdigest() != _sha256(name, files[name])

    there = [name for name in files if f"runs/{name}" in versions]
    with ThreadPoolExecutor(2) as pool:
        troubles += [
            f"{name} has other bytes" for name, other in zip(there, pool.map(is_other, there), strict=True) if other
        ]
    return troubles


def main() -> int:
    """Run the soak. 1: something was lost, or uploaded twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--biggest", type=float, default=200.0, help="MB of the largest files; the smallest have 1")
    parser.add_argument("--clients", type=int, default=4, help="files that are written at a time")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds without an answer of the storage")
    parser.add_argument("--throttled", type=float, default=0.1, help="share of the requests that are refused")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    if (missing := missing_libnfs()) is not None:
        sys.exit(missing)
    rng = random.Random(options.seed)
    sizes = [int(MB * math.exp(rng.uniform(0, math.log(options.biggest)))) for _ in range(options.files)]
    files = {f"{number:04d}.bcl": size for number, size in enumerate(sizes)}
    total = sum(sizes) / MB
    print(f"seed {options.seed}: {len(files)} files, {total:,.0f} MB", flush=True)
    with tempfile.TemporaryDirectory(prefix="seqferry-soak-", dir=ROOT / "target") as name:
        own = OwnServer(Path(name))
        bucket = own.server.create_bucket(versioned=True)
        with Proxy(own.server) as proxy:
            proxy.rule(THROTTLED, slow_down(), probability=options.throttled, seed=options.seed)
            shares = WrittenShares(Path(name), proxy.server, written_share("runs", f"s3://{bucket}/runs/"))
            try:
                began = time.monotonic()
                with ThreadPoolExecutor(options.clients) as pool:
                    writing = [pool.submit(_write, shares, file, size) for file, size in files.items()]
                    writing[len(writing) // 3].result()
                    # Before the rule of throttling: the first that fits counts.
                    proxy.clear_rules()
                    proxy.rule((), reset())
                    time.sleep(options.outage)
                    proxy.clear_rules()
                    proxy.rule(THROTTLED, slow_down(), probability=options.throttled, seed=options.seed + 1)
                    written = max(one.result() for one in writing) - began
                print(f"written in {written:.1f} s: {total / written:.0f} MB/s", flush=True)
                shares.ask("flush", "--wait", deadline=3600.0)
                ended = time.monotonic() - began
                print(f"in the bucket after {ended:.1f} s: {total / ended:.0f} MB/s", flush=True)
                refused = sum(not one.succeeded for one in proxy.log())
                troubles = _troubles(own, bucket, files)
            finally:
                shares.close()
                own.stop()
    print(f"{refused} requests were refused or not answered")
    for trouble in troubles:
        print(f"FAILED: {trouble}")
    print("the bucket is what was written, one version each" if not troubles else f"{len(troubles)} troubles")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
