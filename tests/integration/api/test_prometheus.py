"""``/metrics``, read by Prometheus' own parsers."""

from __future__ import annotations

import socket
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from control import add_batch, planned, results, spec_number
from http_client import http_of
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from seqferry.api import metrics
from seqferry.db import batches, notice_rows, objects
from seqferry.db.notice_rows import Subject
from seqferry.db.tables import notice
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.processes import RunningProcess, run, seqferry

_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def _scraped(client: httpx.Client) -> dict[str, Metric]:
    """Families by name, the same in both formats."""
    answer = client.get("/metrics", headers={"Accept": _OPENMETRICS})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    found = {family.name: family for family in openmetrics(answer.text)}
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert {family.name.removesuffix("_total") for family in text_format(plain.text)} >= {*found}
    return found


def _values(family: Metric) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in the order of their names."""
    return {tuple(value for _, value in sorted(one.labels.items())): one.value for one in family.samples}


@pytest.mark.every_database
def test_the_control_plane_in_figures(service: Service) -> None:
    running, waiting = (service.submit(spec_number(number), actor="ada") for number in range(2))
    service.cancel(service.submit(spec_number(2), actor="ada"), actor="ada")
    with service.database.write() as connection:
        for keys in ("abc", "de"):
            add_batch(connection, running, [planned(key, 10) for key in keys])
        run = batches.begin_batch(connection, running, 0, 1.0)
        assert run is not None
        first = objects.open_objects(connection, run)[0].id
        batches.record(connection, [(run, results({"id": first, "state": "done", "size": 10}))])
    with http_of(service) as client:
        found = _scraped(client)

    assert _values(found["seqferry_transfers"]) == {("cancelled",): 1, ("queued",): 2}
    assert _values(found["seqferry_queue_batches"]) == {("queued",): 1, ("active",): 1}
    assert _values(found["seqferry_queue_objects"]) == {(): 4}
    assert _values(found["seqferry_queue_bytes"]) == {(): 40}
    assert _values(found["seqferry_objects"])[("done",)] == 1
    assert _values(found["seqferry_bytes"]) == {(): 10}
    assert _values(found["seqferry_oldest_waiting_seconds"])[()] >= 0
    of_objects = _values(found["seqferry_transfer_objects"])
    assert of_objects["transfer", "open", running] == 4
    assert of_objects["transfer", "done", running] == 1
    assert {labels[2] for labels in of_objects} == {running, waiting}
    assert _values(found["seqferry_transfer_size_bytes"])["transfer", running] == 50


@pytest.mark.every_database
def test_notices_by_state_and_the_age_of_the_oldest_one(service: Service) -> None:
    with service.database.write() as connection:
        now = service.database.now(connection)
        for number, channel in enumerate(("mail", "chat")):
            subject = Subject("transfer", f"t{number}")
            notice_rows.record(connection, subject, "ended", [channel], now - 100 * (number + 1))
        connection.execute(notice.update().where(notice.c.channel == "chat").values(state="given_up"))
    with http_of(service) as client:
        found = _scraped(client)

    assert _values(found["seqferry_notices"]) == {("pending",): 1, ("sent",): 0, ("given_up",): 1}
    assert 100 <= _values(found["seqferry_oldest_notice_seconds"])[()] < 200
    assert _values(found["seqferry_database_reading_seconds"])[()] > 0


def test_every_metric_that_is_named_is_scraped_and_no_label_is_a_key(service: Service) -> None:
    transfer_id = service.submit(spec_number(0), actor="ada")
    with service.database.write() as connection:
        add_batch(connection, transfer_id, [planned("secret-patient-name")])
    with http_of(service) as client:
        found = _scraped(client)
        text = client.get("/metrics").text

    wanted = {one.name for one in metrics.METRICS} | {one.name for one in service.engine.stats().metrics}
    assert {name.removesuffix("_total") for name in wanted} <= {*found}
    assert "secret-patient-name" not in text
    assert {one.name: one.kind for one in metrics.METRICS} == {
        one.name: found[one.name.removesuffix("_total")].type for one in metrics.METRICS
    }


def test_histograms_of_the_engine_are_whole(service: Service) -> None:
    from seqferry.model.errors import StorageError
    from seqferry.model.locations import S3Location

    with pytest.raises(StorageError):
        service.engine.check_bucket(S3Location("b", endpoint_url="http://127.0.0.1:9", anonymous=True))
    with http_of(service) as client:
        found = _scraped(client)

    histograms = [family for family in found.values() if family.type == "histogram"]
    assert any(family.samples for family in histograms)
    for family in histograms:
        series: dict[tuple[tuple[str, str], ...], list[float]] = {}
        counts: dict[tuple[tuple[str, str], ...], float] = {}
        for sample in family.samples:
            labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            if sample.name.endswith("_bucket"):
                series.setdefault(labels, []).append(sample.value)
            elif sample.name.endswith("_count"):
                counts[labels] = sample.value
        assert {labels: values[-1] for labels, values in series.items()} == counts
        assert all(first <= second for values in series.values() for first, second in pairwise(values))


def test_metrics_need_a_token(service: Service) -> None:
    with http_of(service) as client:
        refused = client.get("/metrics", headers={"Authorization": "Bearer no"})

    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


def test_a_worker_offers_its_metrics(sqlite_settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [seqferry(), "worker", "--log-format", "json"]
    place = f"127.0.0.1:{port}"
    environment = {"SEQFERRY_STATE_DIR": str(sqlite_settings.state_dir), "SEQFERRY_METRICS_LISTEN": place}
    with RunningProcess(command, environment=environment, is_preloaded=True) as process:
        process.wait_for_output("metrics are on")
        text = httpx.get(f"http://{place}/metrics", trust_env=False).text

    assert "seqferry_workers 1.0" in text
    assert "seqferry_max_requests" in text


def test_a_worker_whose_address_of_metrics_is_taken_is_refused_before_it_works(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [seqferry(), "worker", "--metrics-listen", place]
        refused = run(command, environment={"SEQFERRY_STATE_DIR": str(tmp_path)}, expect=1, is_preloaded=True)

    line = f"seqferry: Cannot serve metrics on {place}: Address already in use. Choose another --metrics-listen.\n"
    assert refused.stderr == line
    assert list(tmp_path.iterdir()) == [], "it never was a worker"
