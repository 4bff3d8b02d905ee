"""Reading a request's body within its limit."""

from __future__ import annotations

from starlette.requests import Request

from nonneg_core.errors import BodyTooLarge, MediaUnsupported, RequestInvalid


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body, refused by its announced length or as soon as more than `limit` bytes have come."""
    coding = ", ".join(request.headers.getlist("content-encoding")).lower()
    if any(name.strip() not in ("", "identity") for name in coding.split(",")):
        raise MediaUnsupported(
            f"a body in {coding!r} is not unpacked here",
            fix="send it as it is",
            field="content-encoding",
            value=coding[:40],
        )
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdecimal() and len(announced) < 19 and int(announced) > limit:
        raise _too_large(int(announced), limit)  # a number that no client means is left to the count below
    chunks: list[bytes] = []
    received, more = 0, True
    while more:  # not `request.stream()`, whose last, empty chunk would have a whole body copied
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise RequestInvalid(
                f"the connection closed after {received} bytes", fix="send the whole body", field="body", value=received
            )
        chunks.append(message.get("body", b""))
        received += len(chunks[-1])
        if received > limit:
            raise _too_large(received, limit)
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(size: int, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"the body has {size} bytes or more, the limit is {limit}",
        fix="send fewer or smaller images a request, or raise --max-body",
        field="max_body",
        value=size,
        limit=limit,
    )
