"""The OpenAPI document says everything, and schemathesis finds nothing that it does not say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from nonneg_server.api import DIALECTS
from nonneg_server.api.route import Route
from nonneg_server.startup import documents as made

pytestmark = [pytest.mark.slow, pytest.mark.waits]
METHODS = {"get", "post", "put", "delete", "patch"}


@pytest.fixture(scope="module")
def document(served: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(served + "/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def test_every_route_that_is_shown_says_what_it_takes_and_answers(document: dict[str, Any]) -> None:
    shown = [route for dialect in DIALECTS for route in dialect.routes if getattr(route, "include_in_schema", False)]
    assert all(isinstance(route, Route) and route.operation is not None for route in shown)
    listed = {f"{method} {route.path_format}" for _, route, _ in made.operations() for method in route.methods or ()}
    assert listed == {name for name, _ in operations(document)}


def test_every_operation_has_a_summary_an_answer_and_its_errors(document: dict[str, Any]) -> None:
    assert len(operations(document)) >= 20
    for name, operation in operations(document):
        assert operation["summary"], name
        answer = operation["responses"]["200"]
        assert name == "GET /health" or answer["content"], name
        assert all(content["schema"] for content in answer["content"].values()), name
        assert "X-Request-Id" in answer["headers"], name
        for status in {"404", "503", "default"} | (
            {"400", "413", "415", "422", "429", "504"} if "requestBody" in operation else set()
        ):
            assert operation["responses"][status]["content"]["application/json"]["example"], (name, status)


def test_every_body_has_an_example_that_works(document: dict[str, Any], served: str) -> None:
    bodies = [(name, op) for name, op in operations(document) if "requestBody" in op]
    assert len(bodies) >= 7
    for name, operation in bodies:
        example = operation["requestBody"]["content"]["application/json"]["example"]
        path = name.partition(" ")[2].format(model="tiny", version="1")
        if "model" in example:
            example["model"] = "tiny"
        headers = {p["name"]: p["example"] for p in operation["parameters"] if p["in"] == "header"}
        answer = httpx.post(served + path, json=example, headers=headers)
        expected = 404 if name == "POST /search" else 200  # this server has no index
        assert answer.status_code == expected, (name, answer.text)


def test_every_answer_has_an_example_of_its_shape(document: dict[str, Any]) -> None:
    for _, route, said in made.operations():
        if said.answer is not None:
            TypeAdapter(said.answer).validate_python(said.example)
        assert said.answer is not None or said.says, route.path
    for name, operation in operations(document):
        content = operation["responses"]["200"]["content"]
        assert "example" in content.get("application/json", {"example": "a picture"}), name


def test_every_parameter_says_what_it_means(document: dict[str, Any]) -> None:
    embed = document["paths"]["/embed"]["post"]
    named = {parameter["name"]: parameter for parameter in embed["parameters"]}
    assert set(named) == {"model", "dimensions", "top_k", "normalize", "format", "encoding", "errors", "truncate"}
    assert all(parameter["description"] for parameter in named.values())
    native, texts, mixed, tei = embed["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    for body, content in ((native, "images"), (texts, "texts"), (mixed, "inputs")):
        assert set(body["properties"]) == {content, *named}
    assert "inputs" in tei["properties"]


def explored(address: str, tmp_path: Path, examples: int, seconds: int = 280) -> None:
    """A random string is seldom an image, so that refusing data of the right shape is not a finding."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", address + "/openapi.json", "--no-color"),
            *("--exclude-checks", "positive_data_acceptance", "--phases", "examples,coverage,fuzzing"),
            *("--max-examples", str(examples), "--seed", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_schemathesis_finds_nothing(served: str, tmp_path: Path) -> None:
    explored(served, tmp_path, 6)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_schemathesis_finds_nothing_in_a_long_run(served: str, tmp_path: Path) -> None:
    explored(served, tmp_path, 150, seconds=3500)
