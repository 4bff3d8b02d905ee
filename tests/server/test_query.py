"""POST /query against a real server process: weightings, conditions, and every refusal with its place."""

from __future__ import annotations

import base64

import httpx
import numpy as np
import pytest


def ask(server, **body):
    return httpx.post(f"{server}/query", json=body, timeout=60)


@pytest.fixture(scope="module")
def picture(photos):
    return base64.b64encode((photos / "cat" / "cat-0.jpg").read_bytes()).decode()


def test_photos_and_dimensions_become_weightings_and_conditions(server, picture):
    answer = ask(server, expression="a.jpg & a.jpg + 2*dim:7 !dim:9", images={"a.jpg": picture}, dimensions=64)
    assert answer.status_code == 200
    found = answer.json()
    assert found["expression"] == "a.jpg & a.jpg + 2*dim:7 !dim:9"
    assert [unwanted["dimension"] for unwanted in found["without"]] == [9]
    assert 0 < found["chance"] < 1
    own = httpx.post(
        f"{server}/embed", json={"images": [picture], "dimensions": 64, "format": "dense"}, timeout=60
    ).json()["data"][0]["embedding"]
    for part, expected in zip(found["parts"], [np.array(own), np.array(own) + 2 * np.eye(64)[7]], strict=True):
        z = np.zeros(64)
        z[part["indices"]] = part["values"]
        np.testing.assert_allclose(z, expected / np.linalg.norm(expected), atol=1e-5)
        assert part["nnz"] == len(part["indices"])
    assert answer.headers["x-fingerprint"] == found["fingerprint"]


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        ({"expression": "dim:1 +"}, "expression_invalid", "expression[7]"),
        ({"expression": "a.jpg + dim:1"}, "expression_invalid", "expression[0]"),
        ({"expression": "dim:1", "images": {"b.jpg": "AAAA"}}, "expression_invalid", "images"),
        ({"expression": "dim:1", "dimensions": 99999}, "parameter_invalid", "dimensions"),
        ({"expression": "dim:70", "dimensions": 64}, "expression_invalid", "expression[0]"),
        ({"expression": "dim:1", "k": 3}, "parameter_invalid", "k"),
        ({"expression": 3}, "parameter_invalid", "expression"),
        ({}, "parameter_invalid", "expression"),
        ({"expression": "x" * 5000}, "parameter_invalid", "expression"),
        ({"expression": " & ".join(["dim:1"] * 40)}, "expression_invalid", "expression[256]"),
        ({"expression": "a.jpg", "images": {"a.jpg": "AAAA"}}, "image_unsupported", "images['a.jpg']"),
        ({"expression": "a.jpg", "images": {"a.jpg": 3}}, "parameter_invalid", "images['a.jpg']"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(server, body, kind, field):
    answer = ask(server, **body)
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert (error["type"], error["field"]) == (kind, field)
    assert error["fix"]
