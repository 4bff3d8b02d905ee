"""A tiny encoder really trained, one thread and real photos, as the tests of training and of export have them."""

from __future__ import annotations

from tests.export.conftest import labelled, real_photos
from tests.training.conftest import one_thread, trained

__all__ = ["labelled", "one_thread", "real_photos", "trained"]
