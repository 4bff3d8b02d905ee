"""A request that names a fingerprint is answered by that model or not at all, in every dialect and through the SDK."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nonneg_client import AsyncClient, Client, Encoder
from nonneg_core.errors import FingerprintMismatch, ParameterInvalid
from nonneg_runtime.bundle.bundle_folder import Bundle

Paint = Callable[[int], bytes]
Replicas = tuple[list[str], list[str]]  # addresses, fingerprints


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory, make_bundle: Callable[..., Bundle], start: Any) -> Iterator[Any]:
    """Two servers that call two models by one name."""
    made = [make_bundle(tmp_path_factory.mktemp(f"bundle-{seed}"), seed=seed) for seed in (0, 1)]
    flags = ("--drain", "0", "--alias", "latest=tiny", "--model")
    with start(*flags, str(made[0].path)) as (a, _), start(*flags, str(made[1].path)) as (b, _):
        yield [a, b], [bundle.manifest.fingerprint for bundle in made]


def requests_for(model: str, photo: bytes) -> Iterator[dict[str, Any]]:
    """A request of every dialect, and of every native route that computes."""
    text = base64.b64encode(photo).decode()
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [text]}
    yield {"url": f"/embed?model={model}", "content": photo}
    yield {"url": "/embed", "json": {"images": [text], "model": model}}
    yield {"url": "/explain", "json": {"images": [text, text], "model": model}}
    yield {"url": "/query", "json": {"expression": "a.png", "images": {"a.png": text}, "model": model}}
    yield {"url": "/shorten", "json": {"vectors": [{"indices": [1], "values": [1.0]}], "model": model}}
    yield {"url": "/embed", "json": {"inputs": text, "model": model}}
    yield {"url": "/embed_sparse", "json": {"inputs": text, "model": model}}
    yield {"url": "/v1/embeddings", "json": {"input": text, "model": model}}
    yield {"url": "/v2/embed", "json": {"images": [text], "model": model}}
    yield {"url": f"/v2/models/{model}/infer", "json": {"inputs": [tensor]}}


@pytest.mark.parametrize("name", ["tiny", "latest", ""])
def test_two_replicas_of_two_models_cannot_answer_a_pinned_request_wrongly(
    replicas: Replicas, png: Paint, name: str
) -> None:
    pairs = list(zip(*replicas, strict=True))
    for (server, fingerprint), pin, whole in itertools.product(pairs, replicas[1], (8, 32)):
        for request in requests_for(f"{name}@{pin[:whole]}", png(0)):
            answer = httpx.post(server + request.pop("url"), **request)
            assert answer.status_code == (200 if pin == fingerprint else 409), answer.text
            assert answer.status_code == 409 or answer.headers["x-fingerprint"] == pin


def test_the_refusal_is_typed_and_says_what_is_served(replicas: Replicas, png: Paint) -> None:
    (server, _), (here, there) = replicas
    error = httpx.post(f"{server}/embed?model=tiny@{there[:8]}", content=png(0)).json()["error"]
    assert (error["type"], error["field"], error["limit"]) == ("fingerprint_mismatch", "model", here)
    assert f"the model here is tiny@{here[:8]}" in error["message"]
    code = httpx.post(f"{server}/v1/embeddings", json={"input": "AAAA", "model": f"@{there}"}).json()["error"]["code"]
    assert code == "fingerprint_mismatch"


def test_answers_of_other_dialects_name_the_model_so_that_it_can_be_asked_for_again(
    replicas: Replicas, png: Paint
) -> None:
    (server, _), (here, _) = replicas
    text = base64.b64encode(png(0)).decode()
    openai = httpx.post(f"{server}/v1/embeddings", json={"input": text, "model": "latest"}).json()
    cohere = httpx.post(f"{server}/v2/embed", json={"images": [text], "model": openai["model"]}).json()
    assert openai["model"] == cohere["meta"]["model"] == f"tiny@{here[:8]}"


@pytest.mark.parametrize("pin", ["", "c", "1234567"])
def test_a_pin_that_another_model_could_have_by_chance_is_refused(replicas: Replicas, png: Paint, pin: str) -> None:
    answer = httpx.post(f"{replicas[0][0]}/embed?model=tiny@{pin}", content=png(0))
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "parameter_invalid")


def test_a_client_with_a_fingerprint_takes_no_other_model(replicas: Replicas, png: Paint) -> None:
    (a, b), (here, there) = replicas
    with Client(a, fingerprint=here[:8]) as client:
        assert client.embed(png(0)).fingerprint == client.model().fingerprint == here
        assert client.query("dim:1", model="latest").fingerprint == here
        assert len(client.dimensions()) == 48
    for asked in ({"fingerprint": here}, {"model": "latest", "fingerprint": here}, {"model": f"tiny@{here}"}):
        with Client(b, **asked) as client:
            calls = (lambda: client.embed(png(0)), client.model, lambda: client.query("dim:1"), client.dimensions)
            for call in calls:
                with pytest.raises(FingerprintMismatch, match=there[:8]):
                    call()


@pytest.mark.anyio
async def test_an_asynchronous_client_with_a_fingerprint_takes_no_other_model(replicas: Replicas, png: Paint) -> None:
    (a, b), (here, _) = replicas
    async with AsyncClient(a, model="latest", fingerprint=here) as client:
        assert (await client.embed(png(0))).fingerprint == here
    async with AsyncClient(b, fingerprint=here) as client:
        for call in (client.embed(png(0)), client.model(), client.query("dim:1"), client.dimensions()):
            with pytest.raises(FingerprintMismatch):
                await call


def test_a_bundle_in_this_process_takes_the_same_names(bundle: Bundle, png: Paint) -> None:
    with Encoder(bundle) as encoder:
        assert len(encoder.embed(png(0), model=bundle.manifest.pinned)) == 1
        for model, error in (("tiny@00000000", FingerprintMismatch), ("tiny@0", ParameterInvalid)):
            with pytest.raises(error):
                encoder.embed(png(0), model=model)


def test_a_served_name_has_no_at_sign(tmp_path: Path, bundle: Bundle) -> None:
    from nonneg_core.errors import ConfigInvalid
    from nonneg_server.models.served_models import sources_of

    with pytest.raises(ConfigInvalid, match="has an @"):
        sources_of((f"a@b={bundle.path}",))
