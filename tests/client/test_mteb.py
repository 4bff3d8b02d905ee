"""The MTEB adapter: the encoder's protocol over the real server, and MTEB itself where it is installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from PIL import Image

from nonneg_client.embedder import local
from nonneg_client.evaluation import MTEBEncoder
from nonneg_core.errors import ConfigInvalid


@pytest.fixture(scope="module")
def pictures(photos):
    return [Image.open(path).convert("RGB") for path in sorted(photos.rglob("*.jpg"))[:6]]


def test_batches_of_images_become_rows_in_order(client, pictures):
    encoder = MTEBEncoder(client, dimensions=256)
    batches = [{"image": pictures[:4], "label": [0] * 4}, {"image": pictures[4:]}]
    found = encoder.encode(batches, task_metadata=None, hf_split="test", hf_subset="default", batch_size=4)
    np.testing.assert_allclose(found, client.embed(pictures, dimensions=256).numpy(), atol=1e-6)
    assert found.dtype == np.float32
    assert encoder.encode([]).shape == (0, 256)


def test_a_bundle_in_this_process_is_asked_the_same_way(client, pictures):
    with local() as encoder:
        found = MTEBEncoder(encoder).encode([{"image": pictures}])
        assert encoder.model() == client.model()
    np.testing.assert_array_equal(found, MTEBEncoder(client).encode([{"image": pictures}]))


def test_similarities_are_cosines(client):
    encoder = MTEBEncoder(client)
    a, b = np.float32([[3, 4], [0, 0]]), np.float32([[6, 8], [1, 0]])
    np.testing.assert_allclose(encoder.similarity(a, b), [[1, 0.6], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity_pairwise(a, b), [1, 0], atol=1e-6)


def test_a_task_of_texts_is_refused(client):
    with pytest.raises(ConfigInvalid, match="gives text and no images"):
        MTEBEncoder(client).encode([{"text": ["a"]}])


def test_mteb_evaluates_it(client):
    mteb = pytest.importorskip("mteb")
    from mteb.mocks.mock_tasks.classification import MockImageClassificationTask
    from mteb.models.models_protocols import EncoderProtocol

    encoder = MTEBEncoder(client, dimensions=512)
    assert isinstance(encoder, EncoderProtocol)
    assert encoder.mteb_model_meta.revision == client.models()["models"][0]["fingerprint"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (result,) = mteb.evaluate(encoder, MockImageClassificationTask(), cache=None).task_results
    assert result.get_score() == 1.0
