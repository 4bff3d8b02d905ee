"""Alerts, dashboard and metrics as Prometheus's own tool sees them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

ROOT = Path(__file__).parent.parent
ALERTS = ROOT / "deploy" / "prometheus-alerts.yaml"
CASES = ROOT / "tests" / "alerts.yaml"


def promtool(*arguments: str, stdin: str = "") -> None:
    """Run it, if it is there; all that it says when something is wrong."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("without promtool, which comes with Prometheus")
    done = subprocess.run([found, *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_and_to_stay_silent() -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    seen = {(case["alertname"], bool(case["exp_alerts"])) for case in cases}
    assert seen == {(rule["alert"], fires) for rule in rules for fires in (True, False)}


def test_the_alerts_fire_when_they_should_and_not_otherwise() -> None:
    promtool("check", "rules", str(ALERTS))
    promtool("test", "rules", str(CASES))


def test_prometheus_understands_what_the_dashboard_asks(tmp_path: Path) -> None:
    panels = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())["panels"]
    asked = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "dashboard.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "dashboard.yaml"))


def test_prometheus_finds_nothing_to_mend_in_the_metrics(server: str, photos: Path) -> None:
    photo = next(photos.rglob("*.jpg")).read_bytes()
    assert httpx.post(f"{server}/embed", content=photo).status_code == 200
    assert httpx.post(f"{server}/embed", content=b"no image").status_code == 415
    promtool("check", "metrics", stdin=httpx.get(f"{server}/metrics").text)
