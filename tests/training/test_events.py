"""TensorBoard's event file, read back by the format's rules."""

from __future__ import annotations

import struct
from pathlib import Path

from nonneg_training.events import Events, crc32c


def test_the_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_what_was_added_can_be_read_back(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.add(300, {"loss": 1.5, "knn": 0.25})
    data, found = events.path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        body, data = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", data[:4])[0] == masked(body)
        data = data[4:]
        found.append(body)
    assert found[0].endswith(b"\x1a\x0dbrain.Event:2")
    assert b"\x10\xac\x02" in found[1]  # step 300
    assert b"\x0a\x04loss\x15" + struct.pack("<f", 1.5) in found[1]
    assert b"\x0a\x03knn\x15" + struct.pack("<f", 0.25) in found[1]


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
