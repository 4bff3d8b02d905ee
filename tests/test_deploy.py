"""The deployment files say what the server understands."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nonneg_core.errors import ConfigInvalid
from nonneg_core.version import __version__
from nonneg_server.observation.server_metrics import METRICS
from nonneg_server.startup.server_process import LAST_RESORT
from nonneg_server.startup.server_settings import Settings, variable
from nonneg_server.startup.setting_sources import read_settings

DEPLOY = Path(__file__).parent.parent / "deploy"


@pytest.fixture(scope="module")
def container() -> dict[str, Any]:
    deployment, _ = yaml.safe_load_all((DEPLOY / "kubernetes/base/server.yaml").read_text())
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return {
        **found["containers"][0],
        "seconds": found["terminationGracePeriodSeconds"],
        "service links": found["enableServiceLinks"],
    }


def test_every_variable_of_the_pod_is_a_setting_and_valid(
    container: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {variable(name) for name in Settings.model_fields}
    for entry in container["env"]:
        assert entry["name"] in known
        if "value" in entry:
            monkeypatch.setenv(entry["name"], entry["value"])
    settings = Settings()
    assert settings.drain + settings.grace + LAST_RESORT <= container["seconds"], (
        "the pod would be killed while it drains"
    )


def test_the_variables_that_kubernetes_makes_of_services_are_no_settings(
    container: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert container["service links"] is False
    monkeypatch.setenv("NONNEG_PORT", "tcp://10.0.0.1:80")
    with pytest.raises(ConfigInvalid, match="enableServiceLinks: false"):
        read_settings()


def test_the_pod_is_asked_where_the_server_answers_and_runs_as_its_user(container: dict[str, Any]) -> None:
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"  # of /livez, loading would look like being ready
    dockerfile = (DEPLOY.parent / "Dockerfile").read_text()
    assert f"USER {container['securityContext']['runAsUser']}" in dockerfile
    assert f"EXPOSE {container['ports'][0]['containerPort']}" in dockerfile
    assert container["image"] == f"nonneg:{__version__}"


def test_compose_builds_the_server_with_settings_that_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    found = yaml.safe_load((DEPLOY.parent / "compose.yaml").read_text())
    service = found["services"]["nonneg"]
    known = {variable(name) for name in Settings.model_fields}
    for name, value in service["environment"].items():
        assert name in known
        assert isinstance(value, str)
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert settings.drain + settings.grace + LAST_RESORT <= int(service["stop_grace_period"].removesuffix("s"))
    assert (DEPLOY.parent / service["build"] / "Dockerfile").is_file()
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert found["services"]["qdrant"]["profiles"] == ["qdrant"]  # only where it is asked for
    assert set(found["volumes"]) == {"qdrant"}


def test_alerts_and_dashboard_ask_for_metrics_that_are_there() -> None:
    rules = [
        rule
        for group in yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    asked = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(asked) > 20
    for expression in asked:
        assert expression.count("(") == expression.count(")")
        for name in re.findall(r"\bnonneg_\w+", expression):
            assert re.sub(r"_(total|bucket|sum|count)$", "", name) in METRICS, name


def test_the_service_file_runs_the_command_and_outlasts_the_grace_period() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "nonneg.service")
    service = unit["Service"]
    text = (DEPLOY / "nonneg.service").read_text()
    credentials = re.findall(r"^#LoadCredential=(\S+):/", text, re.MULTILINE)
    settings = dict(re.findall(r"^#Environment=(NONNEG_\w+)=%d/(\S+)$", text, re.MULTILINE))
    assert list(settings.values()) == credentials != []  # DynamicUser cannot read what root alone may
    assert settings.keys() <= {variable(name) for name in Settings.model_fields}
    assert service["ExecStart"].endswith("nonneg serve")
    assert float(service["TimeoutStopSec"]) > Settings().drain + Settings().grace + LAST_RESORT
