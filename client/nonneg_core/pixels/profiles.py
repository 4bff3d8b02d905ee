"""What a colour profile is made of, read before LittleCMS computes what it says."""

import math
import struct

MAX_PROFILE = 2**20  # bytes; a printer's profile has half of that
MAX_TAGS = 100
_CLASSES = (b"scnr", b"mntr", b"prtr", b"spac", b"abst")  # neither links of devices nor names of colours
_TAGS_AT = 132
_TAG = struct.Struct(">4sII")


def can_be_used(profile: bytes) -> bool:
    """Return whether building its transform is bounded work: some 50 ms, and memory of about its own size.

    A list of processing steps (`mpet`) is not: each step may be named any number of times. Neither is a table that
    announces more values than the file has bytes, for its memory is taken before they are read.
    """
    if not _TAGS_AT <= len(profile) <= MAX_PROFILE or profile[12:16] not in _CLASSES:
        return False
    count = int.from_bytes(profile[128:_TAGS_AT], "big")
    end = _TAGS_AT + count * _TAG.size
    if count > MAX_TAGS or end > len(profile):
        return False
    return all(_bounded(profile, name, at) for name, at, _ in _TAG.iter_unpack(profile[_TAGS_AT:end]))


def _bounded(profile: bytes, name: bytes, at: int) -> bool:
    kind = profile[at : at + 4]
    if kind == b"mpet" or name[:3] in (b"D2B", b"B2D"):
        return False
    return kind not in (b"mft1", b"mft2", b"mAB ", b"mBA ") or _values(profile, at) <= len(profile)


def _values(profile: bytes, at: int) -> int:
    """Return how many values the table at this place announces; none where the file ends first."""
    head = profile[at : at + 32].ljust(32, b"\0")
    inputs, outputs = head[8], head[9]
    if head[:3] == b"mft":
        return int(head[10] ** inputs * outputs)
    start = int.from_bytes(head[24:28], "big")  # of the table, behind the place of the tag
    return math.prod(profile[at + start : at + start + min(inputs, 16)]) * outputs if start else 0
