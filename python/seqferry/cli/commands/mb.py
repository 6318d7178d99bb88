"""``seqferry mb``."""

from __future__ import annotations

from seqferry.cli import exits
from seqferry.cli.object_access import new_engine
from seqferry.cli.option_groups import AnswerFormat, Bucket, bucket_of
from seqferry.cli.output import display, text
from seqferry.spec.option_groups import OneEndpoint


def mb(bucket: Bucket, endpoint: OneEndpoint, printed: AnswerFormat) -> int:
    """Make a bucket. Its region is that of --region or of the AWS configuration."""
    place = bucket_of(bucket.bucket, endpoint)
    from seqferry.engine import buckets

    buckets.create_bucket(new_engine(), place)
    if printed.as_json:
        display.emit("bucket_made", bucket=place.bucket)
    else:
        print(f"made s3://{text.printable(place.bucket)}")
    return exits.OK
