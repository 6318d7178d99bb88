"""The dry run says what the transfer does: both ask the same planning function."""

from __future__ import annotations

import pytest
from ferry import Ferry

from seqferry.planning.removal_rules import RemovalRefusal
from seqferry.preflight.forecast import Forecast
from support.servers import S3Server

_KEYS = ["run/a", "run/d/b", "run/d/", "run/" + "k" * 200, "run/run/nested", "run/ü %"]


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    return versitygw


@pytest.mark.parametrize("target", ["", "in/", "in/" + "long/" * 180, "in/" + "long/" * 170])
def test_the_dry_run_and_the_transfer_decide_alike(ferry: Ferry, target: str) -> None:
    ferry.fill(dict.fromkeys(_KEYS, 3) | {"run/d/": 0, "run/": 0})
    spec = ferry.spec(target=target)
    shown = {
        planned.source_key: (planned.target_key, planned.size, planned.refusal)
        for planned in ferry.service.preview(spec)
    }

    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()
    ferry.until_ended(transfer_id)

    # What a server makes of a marker of a folder is no decision of ours.
    decided = {
        record.source_key: (
            record.target_key,
            record.size,
            record.error_message if record.error_operation == "plan" else None,
        )
        for record in ferry.service.objects(transfer_id)
    }
    assert decided == shown
    assert len(decided) >= len(_KEYS)


@pytest.mark.parametrize(("max_delete", "source", "kept"), [
    (None, "run/", None), (3, "run/", None), (2, "run/", "TooManyToDelete"), (None, "none/", "EmptySource"),
])  # fmt: skip
def test_the_dry_run_of_a_removal_names_keys_or_the_reason(
    ferry: Ferry, max_delete: int | None, source: str, kept: str | None
) -> None:
    ferry.fill({"run/a": 3})
    client = ferry.server.client()
    for name in ("a", "x", "y", "z"):
        client.put_object(Bucket=ferry.target, Key=f"in/{name}", Body=b"abc")
    spec = ferry.spec(source, "in/").with_options(delete=True, max_delete=max_delete)
    forecast = Forecast(spec)
    for planned in ferry.service.preview(spec):
        forecast.add(planned)

    shown = list(ferry.service.preview_target_removals(spec, forecast))

    if kept is None:
        assert shown == ["in/x", "in/y", "in/z"]
    else:
        [refused] = shown
        assert isinstance(refused, RemovalRefusal)
        assert refused.code == kept
