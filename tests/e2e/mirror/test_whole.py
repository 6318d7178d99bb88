"""Objects with everything S3 can store arrive identical in all respects, read back with another client."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable

import pytest
from boto3.s3.transfer import TransferConfig

from support.buckets import Shape, assert_same, fill, open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server

pytestmark = pytest.mark.every_server  # odd keys, checksums and ETags differ

# At and around what makes an object multipart, and a part: 5 MiB each here.
AROUND = [0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 23 * MIB]


@pytest.mark.parametrize(
    "options", [SMALL_PARTS, ("--copy-threshold", "5MiB")], ids=["our parts", "the source's parts"]
)
def test_objects_of_all_kinds_arrive_identical(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    options: tuple[str, ...],
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    made = fill(s3server, source, rng, Shape(objects=200, sizes=AROUND, prefix="run 42/"))
    # As most tools upload: several parts, and no checksum over the whole.
    for number in range(3):
        s3server.client(s3server.user).upload_fileobj(
            io.BytesIO(rng.randbytes(13 * MIB + number)),
            source,
            f"run 42/multi/{number}",
            ExtraArgs={"Metadata": {"lane": str(number)}, "ContentType": "application/x-bam"},
            Config=TransferConfig(multipart_threshold=6 * MIB, multipart_chunksize=6 * MIB),
        )
    mover = make_mover(s3server)

    code, summary, said = mover.copy(f"s3://{source}/run 42/", f"s3://{target}/archive/", *options)

    assert code == 0, said
    assert_same(s3server, source, target, source_prefix="run 42/", target_prefix="archive/")
    assert open_uploads(s3server, target) == []
    records = mover.objects(summary["id"])
    assert len(records) == len(made) + 3 >= 200
    assert {record.state for record in records} == {"done"}
    verified = Counter(record.verified for record in records)
    assert set(verified) <= {"checksum", "etag", "size"}, verified
    if options != SMALL_PARTS:
        assert verified["size"] == 0 or s3server.kind == "versitygw", verified

    code, summary, said = mover.copy(f"s3://{source}/run 42/", f"s3://{target}/archive/", *options)

    # What was proven by more than its size is known to be the same, and not copied again.
    assert code == 0, said
    again = {record.source_key for record in mover.objects(summary["id"], "done")}
    assert {record.verified for record in records if record.source_key in again} <= {"size"}


def test_content_can_be_compared(
    s3server: S3Server, make_bucket: Callable[..., str], make_mover: Callable[[S3Server], Mover], rng: random.Random
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, rng, Shape(objects=40, sizes=[0, 1, 17 * MIB], odd=False))
    mover = make_mover(s3server)

    code, summary, said = mover.copy(f"s3://{source}", f"s3://{target}", "--verify", "content", *SMALL_PARTS)

    assert code == 0, said
    assert {record.verified for record in mover.objects(summary["id"])} == {"content"}
    assert_same(s3server, source, target)
