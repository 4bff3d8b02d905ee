"""The files for Kubernetes fit its schemas, and what they name is there: ports, labels, settings, metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nonneg_server.observation.metrics import METRICS
from nonneg_server.process import LAST_RESORT
from nonneg_server.settings import Settings, variable

FOLDER = Path(__file__).parent.parent / "deploy" / "kubernetes"
OVERLAYS = ("cpu", "keda", "gpu", "models")
OTHERS = {"ScaledObject", "ServiceMonitor", "ServingRuntime"}  # of operators: their schemas are not in Kubernetes' own
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


def of(kind: str, found: list[Object]) -> list[Object]:
    return [one for one in found if one["kind"] == kind]


@pytest.mark.parametrize(("name", "found"), written(), ids=[f"{n}-{o['kind']}" for n, o in written()])
def test_every_object_fits_the_schema_of_kubernetes(name: str, found: Object) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    if found["kind"] not in OTHERS:
        validate(found, VERSION, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_whole_and_fits_the_schemas(overlay: str) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    found = rendered(FOLDER / "overlays" / overlay)
    for one in found:
        if one["kind"] not in OTHERS:
            validate(one, VERSION, strict=True)
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
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["runAsNonRoot"] is True
        assert len(pod["topologySpreadConstraints"]) == 2
        known = {variable(name) for name in Settings.model_fields}
        for entry in container["env"]:
            assert entry["name"] in known
            if "value" in entry:
                monkeypatch.setenv(entry["name"], entry["value"])
        settings = Settings()
        assert settings.drain + settings.grace + LAST_RESORT <= pod["terminationGracePeriodSeconds"]


def test_scaling_asks_for_metrics_that_are_there() -> None:
    (scaled,) = [one for _, one in written() if one["kind"] == "ScaledObject"]
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    asked = {re.sub(r"_bucket$", "", name) for query in queries for name in re.findall(r"\bnonneg_\w+", query)}
    assert asked == {"nonneg_images_in_flight", "nonneg_request_seconds"}
    assert asked <= METRICS.keys()


def test_prometheus_finds_the_service_and_its_port() -> None:
    found = [one for _, one in written()]
    (monitor,) = of("ServiceMonitor", found)
    (service,) = of("Service", found)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_kserve_starts_the_server_with_the_bundle_it_fetched() -> None:
    (runtime,) = [one for _, one in written() if one["kind"] == "ServingRuntime"]
    (container,) = runtime["spec"]["containers"]
    assert container["args"][:2] == ["nonneg", "serve"]
    assert container["args"][3].endswith("=/mnt/models")  # where KServe puts what storageUri names
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    pytest.importorskip("kubernetes_validate").validate(pod, VERSION, strict=True)
