"""The Helm chart, by what helm has rendered of it (``make lint-chart``): schemas, rights, selectors, the autoscaler.

``data/kubernetes-schemas.json`` is of the Go modules k8s.io/kubernetes 1.37.2 and github.com/kedacore/keda/v2 2.21.0
(Apache-2.0).
"""

from __future__ import annotations

import copy
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from seqferry.settings.config import Settings
from seqferry.settings.config_file import AUDIT, SETTINGS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from check_chart import CASES, CHART, RENDERED, SCHEMAS, digest  # noqa: E402 - of a folder that is no package

Document = dict[str, Any]
KINDS = {name: jsonschema_rs.validator_for(schema) for name, schema in json.loads(SCHEMAS.read_text()).items()}
VALUES: Document = yaml.safe_load((CHART / "values.yaml").read_text())
VALUES_SCHEMA = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))
DOCUMENTS: dict[str, list[Document]] = {
    name: [one for one in yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text()) if one] for name in CASES
}
EVERY = [(name, document) for name, documents in DOCUMENTS.items() for document in documents]


def of_kind(case: str, kind: str, name: str = "") -> Document:
    [found] = [one for one in DOCUMENTS[case] if one["kind"] == kind and one["metadata"]["name"].endswith(name)]
    return found


def pod(case: str, name: str) -> Document:
    return of_kind(case, "Deployment", name)["spec"]["template"]["spec"]


def title(document: Document) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


def problems(document: Document) -> list[str]:
    validator = KINDS[f"{document['apiVersion']} {document['kind']}"]
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in validator.iter_errors(document)]


@pytest.mark.parametrize("case", CASES)
def test_what_was_rendered_is_of_this_chart(case: str) -> None:
    first = (RENDERED / f"{case}.yaml").read_text().splitlines()[0]

    assert first.endswith(digest()), "run `make lint-chart ARGS=--write` and look at the difference"


@pytest.mark.parametrize(("case", "document"), EVERY, ids=lambda one: one if isinstance(one, str) else title(one))
def test_each_document_follows_its_schema(case: str, document: Document) -> None:
    assert problems(document) == [], case


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(replica=1),
        lambda spec: spec.update(replicas="three"),
        lambda spec: spec["template"]["spec"].update(terminationGracePeriod=60),
        lambda spec: spec["template"]["spec"]["containers"][0]["securityContext"].update(readOnlyRoot=True),
        lambda spec: spec.pop("selector"),
    ],
)
def test_a_fault_in_a_document_would_be_found(change: Callable[[Document], object]) -> None:
    document = copy.deepcopy(of_kind("default", "Deployment", "worker"))
    change(document["spec"])

    assert problems(document)


def test_values_follow_their_schema_and_a_misspelt_one_does_not() -> None:
    assert VALUES_SCHEMA.is_valid(VALUES)
    for change in ({"wrker": {}}, {"worker": {"replica": 2}}, {"settings": {"AWS_SECRET_ACCESS_KEY": "s"}}):
        assert not VALUES_SCHEMA.is_valid({**VALUES, **change}), change


@pytest.mark.parametrize("case", CASES)
def test_selectors_choose_the_pods_of_their_deployment_and_no_others(case: str) -> None:
    deployments = [one for one in DOCUMENTS[case] if one["kind"] == "Deployment"]
    for one in deployments:
        wanted = one["spec"]["selector"]["matchLabels"].items()
        chosen = [other for other in deployments if wanted <= other["spec"]["template"]["metadata"]["labels"].items()]
        assert chosen == [one]
    for service in (one for one in DOCUMENTS[case] if one["kind"] == "Service"):
        wanted = service["spec"]["selector"].items()
        [chosen_by] = [one for one in deployments if wanted <= one["spec"]["template"]["metadata"]["labels"].items()]
        ports = {port["name"] for port in chosen_by["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@pytest.mark.parametrize("case", CASES)
def test_pods_have_few_rights(case: str) -> None:
    for deployment in (one for one in DOCUMENTS[case] if one["kind"] == "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        ids = {name: spec["securityContext"].get(name) for name in ("runAsUser", "runAsGroup", "fsGroup")}
        # That of the image; one of a range of the cluster; the cluster's own, which refuses pods that name another.
        user = {"everything": 1000660000, "openshift": None}.get(case, 65532)
        assert set(ids.values()) == {user}
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        [container] = spec["containers"]
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert written == {"/var/lib/seqferry", "/tmp"}
        assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}


@pytest.mark.parametrize("case", CASES)
def test_the_address_of_the_database_comes_from_a_secret(case: str) -> None:
    for document in DOCUMENTS[case]:
        if document["kind"] == "ConfigMap":
            assert not {name for name in document["data"] if "DATABASE" in name or "TOKEN" in name}
        if document["kind"] == "Deployment":
            [container] = document["spec"]["template"]["spec"]["containers"]
            assert container["env"][0]["name"] == "SEQFERRY_DATABASE_URL"
            assert all("secretKeyRef" in one["valueFrom"] for one in container["env"])


@pytest.mark.parametrize("case", CASES)
def test_each_setting_is_one_that_the_program_knows(case: str) -> None:
    known = {f"SEQFERRY_{name.upper()}" for name in (*SETTINGS, *(f"audit_{one}" for one in AUDIT))}
    for document in (one for one in DOCUMENTS[case] if one["kind"] == "ConfigMap" and "config.toml" not in one["data"]):
        names = {name for name in document["data"] if name.startswith("SEQFERRY_")}
        assert names <= known | {"SEQFERRY_CONFIG"}
        readable = {name: value for name, value in document["data"].items() if name != "SEQFERRY_CONFIG"}
        Settings.load(readable)
    for document in (one for one in DOCUMENTS[case] if one["kind"] == "ConfigMap" and "config.toml" in one["data"]):
        assert tomllib.loads(document["data"]["config.toml"])


def test_a_worker_has_time_to_suspend_its_work() -> None:
    assert pod("default", "worker")["terminationGracePeriodSeconds"] == 60
    assert pod("everything", "worker")["terminationGracePeriodSeconds"] == 120
    assert pod("default", "server")["containers"][0]["args"][:2] == ["serve", "--no-worker"]


def test_a_server_that_ends_answers_until_no_proxy_sends_requests_to_it() -> None:
    for case, seconds in (("default", 5), ("everything", 15), ("openshift", 0)):
        of = pod(case, "server")
        command = of["containers"][0].get("lifecycle", {"preStop": {"exec": {"command": [None]}}})["preStop"]["exec"]
        assert command["command"][-1] == (f"import time; time.sleep({seconds})" if seconds else None)
        assert of["terminationGracePeriodSeconds"] == seconds + 25


def test_the_autoscaler_reads_the_view_and_alone_sets_the_number_of_workers() -> None:
    scaled = of_kind("everything", "ScaledObject")["spec"]
    worker = of_kind("everything", "Deployment", "worker")
    login = of_kind("everything", "TriggerAuthentication")["spec"]["secretTargetRef"][0]

    assert "replicas" not in worker["spec"]
    assert scaled["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (2, 50)
    [trigger] = scaled["triggers"]
    assert trigger["metadata"]["query"] == (
        "select coalesce((select wanted_workers from seqferry_autoscale), 0)::float8"
    )
    assert login == {"parameter": "connection", "name": "keda", "key": "url"}
    limits = of_kind("everything", "ConfigMap", "seqferry")["data"]
    assert limits["SEQFERRY_AUTOSCALE_MIN"] == "2"
    assert limits["SEQFERRY_AUTOSCALE_MAX"] == "50"
    behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleUp"]["policies"] == [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_without_the_autoscaler_there_is_a_number_of_workers_and_nothing_of_it() -> None:
    assert of_kind("fixed", "Deployment", "worker")["spec"]["replicas"] == 3
    assert {one["kind"] for one in DOCUMENTS["fixed"]} == {"ConfigMap", "Deployment"}
    assert not [name for name in of_kind("fixed", "ConfigMap")["data"] if "AUTOSCALE" in name]


def test_the_chart_has_the_version_of_the_program_and_names_documented_values() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    page = (ROOT / "docs/operate/kubernetes.md").read_text()

    assert chart["version"] == chart["appVersion"] == cargo
    assert all(f"`{name}" in page for name in VALUES), [name for name in VALUES if f"`{name}" not in page]
