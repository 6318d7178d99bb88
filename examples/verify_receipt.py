"""Check the digest of a receipt without Seqferry: python verify_receipt.py receipt.json [DIGEST]

The receipt is what `seqferry report ID --format json` writes. DIGEST is what you were told of it, for example in a
notice; without it the one in the file is taken. See docs/guarantees/audit.md for the forms that are hashed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

TIMES = ("last_modified", "started_at", "ended_at")


def main(path: str, told: str | None = None) -> int:
    receipt = json.loads(Path(path).read_text(encoding="utf-8"))
    facts = receipt["facts"]
    leaves: dict[int, list[bytes]] = {batch["number"]: [] for batch in receipt["batches"]}
    for one in receipt["objects"]:
        values = [microseconds(one[name]) if name in TIMES else one[name] for name in facts["columns"]]
        leaves.setdefault(one["batch"], []).append(sha256(b"\x00" + encoded(values)))
    for batch in receipt["batches"]:
        if len(leaves[batch["number"]]) != batch["objects"] or root(leaves[batch["number"]]).hex() != batch["root"]:
            print(f"batch {batch['number']}: its objects are not those of the receipt")
            return 1
    roots = [
        sha256(b"\x00" + encoded([number, len(found), root(found).hex()])) for number, found in sorted(leaves.items())
    ]
    digest = sha256(b"\x02" + encoded(facts)).hex()
    if root(roots).hex() != facts["root"] or digest != (told or receipt["digest"]):
        print(f"the receipt is not the one of the digest {told or receipt['digest']}")
        return 1
    print(f"{len(receipt['objects'])} objects; the receipt has the digest {digest}")
    return 0


def encoded(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


def microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    moment = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return round(moment.timestamp()) * 1_000_000 + int(text[20:26])


def root(leaves: list[bytes]) -> bytes:
    """RFC 9162: split at the largest power of two below the number of leaves."""
    if not leaves:
        return sha256(b"")
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + root(leaves[:split]) + root(leaves[split:]))


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
