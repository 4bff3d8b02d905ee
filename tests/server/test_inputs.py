"""Images in base64: their size is known exactly before there are that many bytes."""

from __future__ import annotations

import base64

import pytest

from nonneg_core.errors import ImageTooLarge
from nonneg_server.requests.inputs import Limits, image_from


@pytest.mark.parametrize("encode", [base64.b64encode, base64.encodebytes])
def test_an_image_in_base64_is_refused_from_one_byte_above_the_limit_on(encode: object) -> None:
    assert callable(encode)
    for size in range(90, 111):
        image = image_from(encode(bytes(size)).decode(), "images[0]", Limits(images=1, bytes=100))
        assert isinstance(image, bytes if size <= 100 else ImageTooLarge), size
