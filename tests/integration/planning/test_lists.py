"""Lists of objects: one that cannot be read is a failed object, and the others arrive."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from control import spec_on
from ferry import Ferry, FerryFactory

from seqferry.model.models import TransferSpec
from seqferry.model.option_groups import Filters, Names
from seqferry.service import control
from seqferry.service.service import Service
from seqferry.spec import run
from seqferry.spec.build import build_spec
from seqferry.spec.identity import resolve
from support.proxy import Proxy, access_denied, slow_down


@pytest.fixture
def ferry(own: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    made = make_ferry(own, reached=proxy.server)
    made.fill({"run/a": 1, "run/b": 2, "run/denied": 3, "run/z": 4})
    made.work()
    return made


def _listed(ferry: Ferry, *keys: str, **changes: object) -> TransferSpec:
    return replace(ferry.spec("run/", "in/"), keys=keys, **changes)  # pyright: ignore[reportArgumentType]


def _carry(ferry: Ferry, spec: TransferSpec) -> tuple[dict[str, str | None], str]:
    """Codes of what has failed by its key, and the id of the transfer."""
    ferry.service.check(spec)
    transfer_id = ferry.service.submit(spec, actor="ada")
    status = ferry.until_ended(transfer_id)
    assert status.error_code is None, status.error_message
    found = ferry.service.objects(transfer_id)
    return {one.source_key: one.error_code for one in found if one.state == "failed"}, transfer_id


@pytest.mark.every_server
def test_a_key_that_is_denied_or_absent_fails_alone_and_each_is_looked_up_once(ferry: Ferry, proxy: Proxy) -> None:
    proxy.rule("HeadObject", access_denied(), bucket=ferry.source, key_is="run/denied")

    failed, _ = _carry(ferry, _listed(ferry, "a", "denied", "absent", "z"))

    assert failed == {"run/denied": "AccessDenied", "run/absent": "NoSuchKey"}
    assert set(ferry.arrived()) == {"a", "z"}
    looked_up = Counter(one.key for one in proxy.log("HeadObject") if one.bucket == ferry.source)
    assert looked_up == dict.fromkeys(["run/a", "run/denied", "run/absent", "run/z"], 1)


def test_a_key_of_which_the_storage_is_always_busy_fails_alone(ferry: Ferry, proxy: Proxy) -> None:
    proxy.rule("HeadObject", slow_down(), bucket=ferry.source, key_is="run/b")
    spec = _listed(ferry, "a", "b", "z")
    spec = replace(spec, source=replace(spec.source, attempts=2))  # pyright: ignore[reportCallIssue]

    failed, transfer_id = _carry(ferry, spec)

    assert list(failed) == ["run/b"]
    assert set(ferry.arrived()) == {"a", "z"}
    [group] = ferry.service.failures(transfer_id)
    assert (group.error_class, group.operation) == ("throttle", "HeadObject")


def test_a_list_of_one_key_that_is_never_answered_ends_as_a_failed_object(ferry: Ferry, proxy: Proxy) -> None:
    proxy.rule("HeadObject", slow_down(), bucket=ferry.source, key_is="run/b")
    spec = _listed(ferry, "b")
    spec = replace(spec, source=replace(spec.source, attempts=2))  # pyright: ignore[reportCallIssue]

    assert list(_carry(ferry, spec)[0]) == ["run/b"]


def test_a_key_that_rules_leave_out_does_not_fail(ferry: Ferry) -> None:
    failed, _ = _carry(ferry, _listed(ferry, "a", "absent.bai", "z", names=Names(("- *.bai",)), filters=Filters(2)))

    assert failed == {}
    assert set(ferry.arrived()) == {"z"}


def test_a_retry_looks_at_each_refused_key_again(ferry: Ferry, proxy: Proxy) -> None:
    rule = proxy.rule("HeadObject", access_denied(), bucket=ferry.source, key_is="run/denied")
    targets = ("A", "D", "N", "Z")
    _, transfer_id = _carry(ferry, _listed(ferry, "a", "denied", "absent", "z", targets=targets))
    proxy.remove_rule(rule)

    again = control.retry(ferry.service, transfer_id, actor="ada").id
    ferry.until_ended(again)

    states = {one.source_key: (one.state, one.error_code) for one in ferry.service.objects(again)}
    assert states == {"run/denied": ("done", None), "run/absent": ("failed", "NoSuchKey")}
    assert set(ferry.arrived()) == {"A", "D", "Z"}


def test_one_of_several_sources_that_cannot_be_read_fails_alone(ferry: Ferry, proxy: Proxy) -> None:
    proxy.rule("HeadObject", access_denied(), bucket=ferry.source, key_is="run/denied")
    named = [f"s3://{ferry.source}/run/{key}" for key in ("a", "denied", "absent", "z")]
    spec = build_spec(named, f"s3://{ferry.target}/in/", endpoint_url=ferry.reached.endpoint_url)

    failed, transfer_id = _carry(ferry, spec)

    assert failed == {"run/denied": "AccessDenied", "run/absent": "NoSuchKey"}
    assert set(ferry.arrived()) == {"a", "z"}
    targets = {one.source_key: one.target_key for one in ferry.service.objects(transfer_id)}
    assert targets["run/denied"] == "in/denied"
    looked_up = Counter(one.key for one in proxy.log("HeadObject") if one.bucket == ferry.source)
    assert set(looked_up.values()) == {1}


def test_one_version_of_a_list_that_cannot_be_read_fails_alone(ferry: Ferry) -> None:
    spec = _listed(ferry, "a", "b", "z", versions=("", "3HL4kqtJvjVBH40Nrjfkd", ""))

    failed, _ = _carry(ferry, spec)

    assert list(failed) == ["run/b"]
    assert set(ferry.arrived()) == {"a", "z"}


def test_a_line_of_a_run_that_cannot_be_read_fails_alone_and_is_retried(ferry: Ferry, proxy: Proxy) -> None:
    rule = proxy.rule("HeadObject", access_denied(), bucket=ferry.source, key_is="run/denied")

    def line(key: str) -> TransferSpec:
        return resolve(spec_on(ferry.reached, f"s3://{ferry.source}/run/{key}", f"s3://{ferry.target}/in/{key}"))

    commands = [run.ListedCommand(number, line(key)) for number, key in enumerate(["a", "denied", "absent", "z"], 1)]
    failed, transfer_id = _carry(ferry, run.build_run_spec(commands, "list"))

    source = f"s3://{ferry.source}/run"
    assert failed == {f"2 {source}/denied": "AccessDenied", f"3 {source}/absent": "NoSuchKey"}
    assert set(ferry.arrived()) == {"a", "z"}

    proxy.remove_rule(rule)
    again = control.retry(ferry.service, transfer_id, actor="ada").id
    ferry.until_ended(again)
    assert set(ferry.arrived()) == {"a", "denied", "z"}


def test_a_dry_run_shows_what_would_fail_of_a_list(ferry: Ferry, proxy: Proxy) -> None:
    proxy.rule("HeadObject", access_denied(), bucket=ferry.source, key_is="run/denied")

    shown = {one.source_key: one.refusal for one in ferry.service.preview(_listed(ferry, "a", "denied", "absent"))}

    assert shown["run/a"] is None
    assert "HeadObject" in (shown["run/denied"] or "")
    assert "no object" in (shown["run/absent"] or "")


def test_a_file_of_a_list_that_is_not_there_fails_alone(ferry: Ferry, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "folder").mkdir()
    spec = build_spec(
        f"{tmp_path}/",
        f"s3://{ferry.target}/in/",
        endpoint_url=ferry.reached.endpoint_url,
        allow_local=True,
        keys=["a", "absent", "a/below", "n" * 300],
    )

    failed, _ = _carry(ferry, spec)

    assert len(failed) == 3
    assert set(ferry.arrived()) == {"a"}
