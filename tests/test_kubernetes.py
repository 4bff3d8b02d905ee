"""The files for Kubernetes fit its schemas, and what they name is there: ports, labels, settings, metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nonneg_server.observation.server_metrics import METRICS
from nonneg_server.startup.server_process import LAST_RESORT
from nonneg_server.startup.server_settings import Settings, variable

FOLDER = Path(__file__).parent.parent / "deploy" / "kubernetes"
OVERLAYS = ("cpu", "keda", "gpu", "models")
SCHEMAS = (
    Path(__file__).parent / "kubernetes_schemas"
)  # of operators' objects, which Kubernetes' own do not have (see NOTICE)
DEFAULT_GRACE_PERIOD = 30  # seconds that Kubernetes gives a pod to end
VERSION = "1.31"
Object = dict[str, Any]


def objects(text: str) -> list[Object]:
    return [found for found in yaml.safe_load_all(text) if found]


def written() -> list[tuple[str, Object]]:
    paths = [path for path in sorted(FOLDER.rglob("*.yaml")) if path.name not in ("kustomization.yaml", "gpu.yaml")]
    return [(str(path.relative_to(FOLDER)), found) for path in paths for found in objects(path.read_text())]


def rendered(folder: Path) -> list[Object]:
    """What `kubectl apply -k` would apply."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders overlays, was not found")
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def check(found: Object) -> None:
    """Hold an object against its schema; fields that the schema does not have are refused."""
    pinned = SCHEMAS / f"{found['kind']}.json"
    if pinned.is_file():
        pytest.importorskip("jsonschema").validate(found, json.loads(pinned.read_text()))
    else:
        pytest.importorskip("kubernetes_validate").validate(found, VERSION, strict=True)


def of(kind: str, found: list[Object]) -> list[Object]:
    return [one for one in found if one["kind"] == kind]


@pytest.mark.parametrize(("name", "found"), written(), ids=[f"{n}-{o['kind']}" for n, o in written()])
def test_every_object_fits_the_schema_of_kubernetes(name: str, found: Object) -> None:
    check(found)


def test_a_field_that_an_operator_does_not_know_is_found() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for kind in ("ScaledObject", "ServiceMonitor", "ServingRuntime"):
        (found,) = of(kind, [one for _, one in written()])
        with pytest.raises(jsonschema.ValidationError, match="'unknown' was unexpected"):
            check({**found, "spec": {**found["spec"], "unknown": 1}})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_whole_and_fits_the_schemas(overlay: str) -> None:
    found = rendered(FOLDER / "overlays" / overlay)
    for one in found:
        check(one)
    deployments = {one["metadata"]["name"]: one["spec"]["template"] for one in of("Deployment", found)}
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        selected = [selector(one) for one in of(kind, found)]
        assert len(selected) == len(deployments)
        for template in deployments.values():
            labels = template["metadata"]["labels"]
            assert sum(chosen.items() <= labels.items() for chosen in selected) == 1, (kind, labels)
    for scaler in of("HorizontalPodAutoscaler", found) + of("ScaledObject", found):
        assert scaler["spec"]["scaleTargetRef"]["name"] in deployments
        assert all("replicas" not in one["spec"] for one in of("Deployment", found))  # or each apply would reset them
    services = {one["metadata"]["name"] for one in of("Service", found)}
    for ingress in of("Ingress", found):
        for path in ingress["spec"]["rules"][0]["http"]["paths"]:
            assert path["backend"]["service"]["name"] in services


def selector(found: Object) -> dict[str, str]:
    spec = found["spec"]
    chosen = spec.get("podSelector") or spec["selector"]
    labels: dict[str, str] = chosen.get("matchLabels", chosen)
    return labels


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_locked_down_spread_and_outlives_its_shutdown(
    overlay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for deployment in of("Deployment", rendered(FOLDER / "overlays" / overlay)):
        pod = deployment["spec"]["template"]["spec"]
        assert len(pod["topologySpreadConstraints"]) == 2
        check_pod(pod, monkeypatch)


def check_pod(pod: Object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold a pod's one container against what the server needs and promises: rights, settings, time, memory."""
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["runAsNonRoot"] is True
    (volume,) = [volume["name"] for volume in pod["volumes"] if volume.get("emptyDir") == {}]
    assert {"name": volume, "mountPath": "/tmp"} in container["volumeMounts"]  # the one place to write
    known = {variable(name) for name in Settings.model_fields}
    for entry in container["env"]:
        assert entry["name"] in known
        if "value" in entry:
            monkeypatch.setenv(entry["name"], entry["value"])
    settings = Settings()
    assert settings.drain + settings.grace + LAST_RESORT <= pod.get(
        "terminationGracePeriodSeconds", DEFAULT_GRACE_PERIOD
    )
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    assert settings.image_memory + settings.upload_bytes <= 0.7 * limit  # the rest: models and the process


def test_scaling_asks_for_metrics_that_are_there() -> None:
    (scaled,) = [one for _, one in written() if one["kind"] == "ScaledObject"]
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    asked = {re.sub(r"_bucket$", "", name) for query in queries for name in re.findall(r"\bnonneg_\w+", query)}
    assert asked == {"nonneg_images_in_flight", "nonneg_request_seconds"}
    assert asked <= METRICS.keys()


def test_a_percentile_is_compared_as_it_is_and_is_never_not_a_number() -> None:
    (scaled,) = [one for _, one in written() if one["kind"] == "ScaledObject"]
    (trigger,) = [one for one in scaled["spec"]["triggers"] if "histogram_quantile" in one["metadata"]["query"]]
    assert trigger["metricType"] == "Value"  # an average would be divided by the number of pods
    assert re.fullmatch(r"\(histogram_quantile\(.+\) > 0\) or vector\(0\)", trigger["metadata"]["query"])
    assert all("metricType" not in one for one in scaled["spec"]["triggers"] if one is not trigger)  # sums are shared


def test_prometheus_finds_the_service_and_its_port() -> None:
    found = [one for _, one in written()]
    (monitor,) = of("ServiceMonitor", found)
    (service,) = of("Service", found)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_kserve_starts_the_server_with_the_bundle_it_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    (runtime,) = [one for _, one in written() if one["kind"] == "ServingRuntime"]
    (container,) = runtime["spec"]["containers"]
    assert container["args"][:2] == ["nonneg", "serve"]
    assert container["args"][3].endswith("=/mnt/models")  # where KServe puts what storageUri names
    spec = {name: runtime["spec"][name] for name in ("containers", "volumes")}
    check_pod(spec, monkeypatch)
    check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
