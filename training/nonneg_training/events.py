"""TensorBoard's event file, scalars only: what its documentation calls a TFRecord of Event messages, written directly.

Forty lines in place of a dependency of twenty packages. Record: length, masked crc, bytes, masked crc.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """One TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def scalars(step: int, values: dict[str, float], wall_time: float) -> bytes:
    """An Event message: wall_time = 1, step = 2, summary = 5 {value = 1 {tag = 1, simple_value = 2}}."""
    summary = b"".join(
        _field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", value)) for name, value in values.items()
    )
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step) + _field(5, summary)


class Events:
    """Appends scalars to a new event file in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}.nonneg"
        header = b"\x09" + struct.pack("<d", time.time()) + _field(3, b"brain.Event:2")
        self.path.write_bytes(record(header))

    def add(self, step: int, values: dict[str, float]) -> None:
        with self.path.open("ab") as file:
            file.write(record(scalars(step, values, time.time())))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
