"""Colour profiles by their structure: what is not bounded is ignored, and what is accepted costs little."""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from nonneg_core.pixels import decode as colour
from nonneg_core.pixels.decode import MAX_PROFILE, can_be_used

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from hard_profiles import PROFILES, curve, icc, names, primaries, stages, steps, table8, table16

sys.path.pop(0)

SECONDS = 0.5  # a tenth of it on a machine that does nothing else
IGNORED = ("steps", "few steps", "steps of inks", "steps by another name", "tags", "table of nothing",
           "table of nothing, 16 bits", "stages of nothing", "names", "names without end", "a link")  # fmt: skip
PRIMARIES = primaries(curve(1024, 3))


@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_takes_long(name: str) -> None:
    mode, make = PROFILES[name]
    profile = make()
    before = time.process_time()
    colour.profile_transform(profile, mode)
    assert time.process_time() - before < SECONDS


@pytest.mark.parametrize("name", IGNORED)
def test_a_picture_with_a_profile_that_is_not_bounded_is_what_it_is_without_one(name: str) -> None:
    mode, make = PROFILES[name]
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, len(mode)), np.uint8)
    image = Image.fromarray(noise, mode)
    plain = colour.opaque_srgb(image)
    image.info["icc_profile"] = make()
    assert not can_be_used(image.info["icc_profile"])
    np.testing.assert_array_equal(np.asarray(colour.opaque_srgb(image)), np.asarray(plain))


@pytest.mark.parametrize("name", [name for name in PROFILES if name not in IGNORED])
def test_large_profiles_within_the_limits_reach_littlecms(name: str) -> None:
    assert can_be_used(PROFILES[name][1]())


def test_profiles_that_programs_write_are_used() -> None:
    for space in ("sRGB", "LAB", "XYZ"):
        assert can_be_used(ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes())
    assert colour.profile_transform(icc(PRIMARIES, pcs=b"XYZ "), "RGB") is not None


@pytest.mark.parametrize("name", [b"D2B0", b"D2B3", b"B2D1", b"C2D0", b"desc"])
def test_one_list_of_steps_is_enough_wherever_it_stands(name: bytes) -> None:
    assert can_be_used(icc(PRIMARIES, pcs=b"XYZ "))
    assert not can_be_used(icc([*PRIMARIES, (name, steps(1))], pcs=b"XYZ "))


def test_the_limits_on_bytes_and_tags_are_exact() -> None:
    whole = icc(PRIMARIES, pcs=b"XYZ ")
    assert can_be_used(whole.ljust(MAX_PROFILE, b"\0"))
    assert not can_be_used(whole.ljust(MAX_PROFILE + 1, b"\0"))
    text = [(b"%04d" % n, b"text" + bytes(8)) for n in range(101)]
    assert can_be_used(icc(text[:100]))
    assert not can_be_used(icc(text))


def test_a_table_may_announce_no_more_values_than_the_profile_has_bytes() -> None:
    for whole in (table8(4, 12), table16(4, 12, 2), stages(4, 12, curve(2))):
        assert can_be_used(icc([(b"A2B0", whole)], space=b"CMYK"))
    for cut in (table8(4, 60, stored=9), table16(4, 60, 2, stored=9), stages(4, 60, curve(2), stored=9)):
        assert not can_be_used(icc([(b"A2B0", cut)], space=b"CMYK"))


def test_a_profile_cut_anywhere_is_used_or_not_without_a_fault() -> None:
    for whole in (icc([(b"A2B0", stages(3, 3, curve(9)))]), icc([(b"ncl2", names(2))]), icc(PRIMARIES)):
        for end in range(len(whole)):
            can_be_used(whole[:end])
            if end % 7 == 0:
                colour.profile_transform(whole[:end], "RGB")


def test_broken_profiles_do_not_stay_in_memory() -> None:
    random = np.random.default_rng(0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(40):
            assert colour.profile_transform(random.bytes(2**20), "RGB") is None
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2**20


def test_only_so_many_transforms_are_kept_and_a_second_look_finds_the_same() -> None:
    profiles = [icc(primaries(curve(16, bent)), pcs=b"XYZ ") for bent in range(3, 8)]
    first = [colour.profile_transform(profile, "RGB") for profile in profiles]
    assert [colour.profile_transform(profile, "RGB") for profile in profiles] == first
    assert None not in first
    assert colour.profile_transform(profiles[0], "RGBA") is not first[0]
    for n in range(colour.KEPT):
        colour.profile_transform(b"%d" % n, "RGB")
    assert colour.profile_transform(profiles[0], "RGB") is not first[0]
