"""One batch's talk with the server, from its bytes to its vectors: what to send, when to wait, how to split.

It is a generator of steps, so that the blocking and the asynchronous client share every decision. They perform a
step (`Send` or `Wait`), hand back its outcome, and the generator's return value is the batch's outcome.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from nonneg_client.sources.image_sources import Item, downscaled
from nonneg_client.wire.client_settings import RateController, RetryPolicy
from nonneg_client.wire.protocol import Options, Request, build, parse
from nonneg_core.errors import OF_AN_IMAGE, BodyTooLarge, NonnegError, Overloaded, TooLarge, TooManyImages
from nonneg_vectors.storage.results import BatchResult, Failure, SparseVector, joined

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BODY = 16 * 2**20  # bytes of images in one request; a single larger image still goes, alone
_OF_THE_IMAGE = (*OF_AN_IMAGE, BodyTooLarge)


@dataclass(frozen=True)
class Send:
    request: Request


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Reply:
    """What a transport brings back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Talk: TypeAlias = Generator[Send | Wait, Reply | None, BatchResult]


def batched(stream: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield groups of `size`, the last one shorter."""
    iterator = iter(stream)
    while batch := list(islice(iterator, size)):
        yield batch


def load(batch: Sequence[Item], downscale: int | None) -> list[bytes | str | NonnegError]:
    """Return the bytes of each image, or why there are none; a text as it is."""
    return [_load(item, downscale) for item in batch]


def _load(item: Item, downscale: int | None) -> bytes | str | NonnegError:
    if item.text is not None:
        return item.text
    try:
        data = item.load()
        if item.inspect is not None:
            _inspect(data, item.inspect)
        return data if downscale is None else downscaled(data, downscale)
    except NonnegError as error:
        return error


def _inspect(data: bytes, inspect: "Callable[[bytes, Image], object]") -> None:
    """Decode an image that is to be sent, for `inspect`; if that cannot be done, the server will say why."""
    from nonneg_core.pixels.decode import decode_then
    from nonneg_core.pixels.pixel_checks import AMPLE

    with suppress(NonnegError):
        decode_then(data, partial(inspect, data), at_least=AMPLE)


def exchange(
    batch: Sequence[Item],
    loaded: Sequence[bytes | str | NonnegError],
    options: Options,
    attempts: RetryPolicy,
    pace: RateController,
) -> Talk:
    """Get an answer for every image that could be loaded, in as many requests as the limits ask for."""
    outcome: dict[int, SparseVector | Failure] = {
        i: Failure(batch[i].id, error) for i, error in enumerate(loaded) if isinstance(error, NonnegError)
    }
    images = {i: data for i, data in enumerate(loaded) if isinstance(data, (bytes, str))}
    groups = list(_by_size(images))
    meta = BatchResult(())
    while groups:
        group = groups.pop(0)
        try:
            reply = yield Send(build([images[i] for i in group], options))
            assert reply is not None
            answer = parse(reply.status, reply.headers, reply.body, [batch[i].id for i in group])
        except NonnegError as error:
            if isinstance(error, Overloaded):
                pace.refused()
            if len(group) == 1 and isinstance(error, _OF_THE_IMAGE):
                outcome[group[0]] = Failure(batch[group[0]].id, error)
            elif isinstance(error, TooLarge) and len(group) > 1:
                groups[:0] = _split(group, error)
            elif (seconds := attempts.delay(error)) is not None:
                groups.insert(0, group)
                yield Wait(seconds)
            else:
                raise
        else:
            pace.succeeded()
            meta = joined(meta, answer)
            outcome |= dict(zip(group, answer.results, strict=True))
    return replace(meta, results=tuple(outcome[i] for i in range(len(batch))))


def next_step(talk: Talk, reply: Reply | None = None, failed: NonnegError | None = None) -> Send | Wait | BatchResult:
    """Hand back the last step's outcome; return the next step, or the batch's outcome behind the last."""
    try:
        return talk.throw(failed) if failed else talk.send(reply)
    except StopIteration as end:
        outcome: BatchResult = end.value
        return outcome


def _by_size(images: Mapping[int, bytes | str]) -> Iterator[list[int]]:
    group: list[int] = []
    size = 0
    for i, data in images.items():
        if group and size + len(data) > MAX_BODY:
            yield group
            group, size = [], 0
        group.append(i)
        size += len(data)
    if group:
        yield group


def _split(group: list[int], error: TooLarge) -> list[list[int]]:
    """Return smaller groups: as small as the named limit, or halves."""
    size = (len(group) + 1) // 2
    if isinstance(error, TooManyImages) and isinstance(error.limit, int) and 0 < error.limit < len(group):
        size = error.limit
    return [group[start : start + size] for start in range(0, len(group), size)]
