"""``make compat``: every check on every server, or on one's own endpoint; writes docs/guarantees/compatibility.md."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

import boto3

from compat import report
from compat.checks import Check, Finding, every_check, look
from compat.fleet import REGION, Endpoint, fleet
from support.run import MissingToolError, Run


def main() -> int:
    options = _options()
    checks = [check for check in every_check() if not options.check or check.name in options.check]
    run = Run.create()
    failed = False
    try:
        if options.endpoint:
            found = _examine(_own(options.endpoint, options.bucket, options.name), checks)
            print(report.table({options.name: found}))
            return 1 if _fails(found) else 0
        kept = report.load()
        for name, product in fleet().items():
            if options.server and name not in options.server:
                continue
            try:
                endpoint = product.start(run)
            except MissingToolError as missing:
                print(f"{product.title}: left out: {missing}", file=sys.stderr)
                continue
            found = _examine(endpoint, checks)
            failed = failed or _fails(found)
            before = kept.get(name, {}).get("findings", {})
            kept[name] = {**found, "findings": {**before, **found["findings"]}}
        report.save(kept)
    finally:
        run.close()
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compat", description=__doc__)
    parser.add_argument("--server", action="append", help="only this one (may be given again)")
    parser.add_argument("--check", action="append", help="only this one (may be given again)")
    parser.add_argument("--endpoint", help="an endpoint of your own, with AWS_* credentials from the environment")
    parser.add_argument("--bucket", help="a bucket there, in which a prefix of its own is used; else one is made")
    parser.add_argument("--name", default="yours", help="what to call that endpoint")
    return parser.parse_args()


def _own(url: str, bucket: str | None, name: str) -> Endpoint:
    session = boto3.session.Session()
    credentials = session.get_credentials()
    if credentials is None:
        raise SystemExit("There are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.")
    held = credentials.get_frozen_credentials()
    region = session.region_name or REGION
    return Endpoint(name, "?", url, held.access_key, held.secret_key, held.token, region, bucket)


def _examine(endpoint: Endpoint, checks: list[Check]) -> report.Record:
    seed = random.SystemRandom().getrandbits(32)
    client = endpoint.client()
    bucket = endpoint.bucket or f"seqferry-compat-{seed:08x}"
    if endpoint.bucket is None:
        client.create_bucket(Bucket=bucket)
    findings: dict[str, Finding] = {}
    for check in checks:
        begun = time.monotonic()
        found = findings[check.name] = look(endpoint, check, bucket, seed)
        seconds = time.monotonic() - begun
        print(f"{endpoint.name:10} {check.name:10} {found.verdict:8} {seconds:5.1f} s  {found.note}", flush=True)
    if endpoint.bucket is None:
        try:
            client.delete_bucket(Bucket=bucket)
        except Exception as error:  # noqa: BLE001 - whatever it is, the server ends with the run
            print(f"{endpoint.name}: {error}", file=sys.stderr)
    return report.record(endpoint.version, findings)


def _fails(found: report.Record) -> bool:
    return any(finding["verdict"] == "fails" for finding in found["findings"].values())


if __name__ == "__main__":
    # The command under test has settings of its own only.
    for name in [name for name in os.environ if name.startswith("SEQFERRY_") and name.endswith("_URL")]:
        del os.environ[name]
    sys.exit(main())
