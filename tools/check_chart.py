"""Checks the Helm chart: `helm lint`, renderings of several values, and the schemas of Kubernetes by kubeconform.

    check_chart.py             lint, and compare what is rendered with the files in tests/unit/data/chart
    check_chart.py --write     write those files anew
    check_chart.py --schemas   write tests/unit/data/kubernetes-schemas.json anew, of the modules of Kubernetes and KEDA

The tests look at the files, which need no tool, and know by a digest whether they are of the chart as it is. Run by
``make lint-chart``, which builds both tools.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "deploy/helm/seqferry"
RENDERED: Final = ROOT / "tests/unit/data/chart"
SCHEMAS: Final = ROOT / "tests/unit/data/kubernetes-schemas.json"
TOOLS: Final = ROOT / ".tools/bin"

KUBERNETES: Final = "k8s.io/kubernetes@v1.37.2"
KEDA: Final = "github.com/kedacore/keda/v2@v2.21.0"
KINDS: Final = ("apps.v1.Deployment", "core.v1.Service", "core.v1.ConfigMap", "core.v1.ServiceAccount")
KEDA_KINDS: Final = ("ScaledObject", "TriggerAuthentication")

CASES: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "fixed": {
        "autoscaling": {"enabled": False},
        "worker": {"replicas": 3},
        "server": {"enabled": False},
        "serviceAccount": {"create": False},
        "metrics": {"annotate": False},
    },
    "openshift": {"userId": None, "server": {"leaveSeconds": 0}},
    "everything": {
        "image": {"repository": "registry.example.org/seqferry", "tag": "0.1.0"},
        "imagePullSecrets": [{"name": "registry"}],
        "database": {"secretName": "db", "urlKey": "pooled", "directUrlKey": "direct"},
        "settings": {"AWS_REGION": "eu-central-1", "SEQFERRY_MAX_BANDWIDTH": "08:00,50MB/s 18:00,off"},
        "config": '[server]\nwrite = ["s3://ours/"]\n',
        "environmentSecrets": ["tokens"],
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/ferry"}},
        "userId": 1000660000,
        "server": {
            "replicas": 2,
            "leaveSeconds": 15,
            "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
        },
        "worker": {"terminationGracePeriodSeconds": 120, "scratchSize": "20Gi"},
        "autoscaling": {"minReplicas": 2, "maxReplicas": 50, "drainMinutes": 30, "secretName": "keda"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "podAnnotations": {"team": "core"},
    },
}
"""Values that are rendered, by the name of the file."""


def digest() -> str:
    """SHA-256 of the files of the chart and of the values that are rendered."""
    found = hashlib.sha256(json.dumps(CASES, sort_keys=True).encode())
    for file in sorted(path for path in CHART.rglob("*") if path.is_file()):
        found.update(f"{file.relative_to(CHART)}\n".encode() + file.read_bytes())
    return found.hexdigest()


def run(*command: str | Path, given: str = "") -> str:
    ran = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def render(values: dict[str, Any], *options: str) -> str:
    command = (
        TOOLS / "helm",
        "template",
        "ferry",
        CHART,
        "--namespace",
        "seqferry",
        "--kube-version",
        "1.37.0",
        "--values",
        "-",
        *options,
    )
    return f"# Rendered by tools/check_chart.py; chart {digest()}\n" + run(*command, given=yaml.safe_dump(values))


def lint(values: dict[str, Any]) -> None:
    run(TOOLS / "helm", "lint", "--strict", CHART, "--values", "-", given=yaml.safe_dump(values))


def conform(files: list[Path]) -> None:
    """Have kubeconform look at the files, with schemas that know no other field than those of Kubernetes."""
    with tempfile.TemporaryDirectory() as folder:
        for name, schema in json.loads(SCHEMAS.read_text()).items():
            version, kind = name.split()
            group, _, number = version.rpartition("/")
            suffix = f"-{group.partition('.')[0]}-{number}" if group else f"-{number}"
            (Path(folder) / f"{kind.lower()}{suffix}.json").write_text(json.dumps(schema))
        place = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        run(TOOLS / "kubeconform", "-strict", "-summary", "-schema-location", place, *files)


def strict(schema: Any) -> Any:
    """The schema without descriptions, in which objects with named fields have no others."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        key: {name: strict(one) for name, one in value.items()}
        if key in ("properties", "definitions")
        else strict(value)
        for key, value in schema.items()
        if not (key == "description" and isinstance(value, str)) and not key.startswith("x-kubernetes")
    }
    if "properties" in made and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def make_schemas() -> dict[str, Any]:
    """Schemas of the kinds that the chart has, by ``apiVersion kind``."""
    document = json.loads((module(KUBERNETES) / "api/openapi-spec/swagger.json").read_text())
    definitions: dict[str, Any] = document["definitions"]
    found: dict[str, Any] = {}
    for kind in KINDS:
        name = f"io.k8s.api.{kind}"
        of = definitions[name]["x-kubernetes-group-version-kind"][0]
        version = f"{of['group']}/{of['version']}" if of["group"] else of["version"]
        needed: dict[str, Any] = {}
        todo = [name]
        while todo:
            if (one := todo.pop()) not in needed:
                text = json.dumps(definitions[one])
                needed[one] = strict(definitions[one])
                todo += [part.partition('"')[0] for part in text.split("#/definitions/")[1:]]
        needed["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {"type": ["integer", "string"]}
        needed["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
        found[f"{version} {of['kind']}"] = {**needed[name], "definitions": needed}
    for file in sorted((module(KEDA) / "config/crd/bases").glob("keda.sh_*.yaml")):
        resource: dict[str, Any] = yaml.safe_load(file.read_text())["spec"]
        if resource["names"]["kind"] in KEDA_KINDS:
            version = resource["versions"][0]
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{resource['group']}/{version['name']} {resource['names']['kind']}"] = schema
    return found


def module(name: str) -> Path:
    return Path(json.loads(run("go", "mod", "download", "-json", name))["Dir"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--schemas", action="store_true")
    given = parser.parse_args()
    if given.schemas:
        SCHEMAS.write_text(json.dumps(make_schemas(), indent=1, sort_keys=True) + "\n")
    RENDERED.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name, values in CASES.items():
        lint(values)
        files.append(RENDERED / f"{name}.yaml")
        text = render(values)
        if given.write:
            files[-1].write_text(text)
        elif not files[-1].exists() or files[-1].read_text() != text:
            sys.exit(f"{files[-1]} is not what the chart renders; run {__file__} --write and look at the difference.")
    conform(files)
    if "runAsUser" in render({}, "--api-versions", "security.openshift.io/v1"):
        sys.exit("On OpenShift the chart names a user, which the cluster refuses.")
    print(f"The chart is sound: {len(files)} renderings, {digest()[:12]}.")


if __name__ == "__main__":
    main()
