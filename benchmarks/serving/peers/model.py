"""What every peer runs: the same decoder, view, session and answer, so that only the serving framework differs."""

from __future__ import annotations

import os

import numpy as np
import orjson
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.pixels.decode import decode
from nonneg_core.shortening import shorten
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session

CORES = len(os.sched_getaffinity(0))
PORT = int(os.environ.get("PORT", "0"))


class Model:
    """The bundle named by BUNDLE (the default model without it), one thread, as each framework starts one a core."""

    def __init__(self) -> None:
        bundle = open_bundle(os.environ.get("BUNDLE") or None)
        self.view = bundle.manifest.view
        self.session = Session(bundle.encoder, threads=1)

    def embed(self, jpeg: bytes) -> bytes:
        """Return a JPEG as the sparse JSON of its whole vector: the job that every server does."""
        vector = shorten(self.vector(jpeg))  # (D,)
        indices = np.flatnonzero(vector > 0)
        found = {"indices": indices, "values": vector[indices]}
        return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)

    def vector(self, jpeg: bytes) -> NDArray[np.float32]:
        """Return a JPEG as the encoder's own vector."""
        return self.run(decode(jpeg, at_least=self.view.decode_side))

    def run(self, image: Image.Image) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.session.run(self.view.apply(image)[None])[0]  # (D,)
        return vector
