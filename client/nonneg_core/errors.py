"""Every error nonneg raises, on the server, in the client and on the command line: one tree.

NonnegError                      500  internal
├── RequestInvalid               400  request_invalid
│   ├── Unauthorized             401  unauthorized
│   ├── Forbidden                403  forbidden
│   ├── NotFound                 404  not_found
│   │   └── ModelNotFound        404  model_not_found
│   ├── MethodNotAllowed         405  method_not_allowed
│   ├── NotAcceptable            406  not_acceptable
│   ├── RequestTimeout           408  request_timeout
│   ├── TooLarge                 413  too_large
│   │   ├── HeadTooLarge         431  head_too_large
│   │   ├── BodyTooLarge         413  body_too_large
│   │   ├── TooManyImages        413  too_many_images
│   │   └── ImageTooLarge        413  image_too_large
│   ├── MediaUnsupported         415  media_unsupported
│   ├── ImageUnsupported         415  image_unsupported
│   ├── ImageUnreadable          422  image_unreadable
│   ├── LinkFailed               422  link_failed
│   └── ParameterInvalid         422  parameter_invalid
│       ├── ExpressionInvalid    422  expression_invalid
│       └── LexiconMissing       422  lexicon_missing
├── Overloaded                   429  overloaded
│   └── RateLimited              429  rate_limited
├── NotReady                     503  not_ready
├── DeadlineExceeded             504  deadline_exceeded
├── ConnectionFailed              -   connection_failed
├── ResponseInvalid               -   response_invalid
├── FingerprintMismatch          409  fingerprint_mismatch
├── BundleInvalid                 -   bundle_invalid
│   ├── DigestMismatch            -   digest_mismatch
│   └── SchemaUnknown             -   schema_unknown
├── DataInvalid                   -   data_invalid
├── CheckpointInvalid             -   checkpoint_invalid
├── TrainingStopped               -   training_stopped
├── ConfigInvalid                 -   config_invalid
├── CheckFailed                   -   check_failed
├── StorageFailed                 -   storage_failed
└── MissingExtra                  -   missing_extra

An error says what, with which value, and how to fix it.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

JsonScalar = str | int | float | bool | None


class NonnegError(Exception):
    """Something went wrong; `type` names it for programs, `fix` tells people what to do."""

    type: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init_subclass__(cls) -> None:
        """Name the type after its class: `ModelNotFound` is model_not_found."""
        cls.type = re.sub(r"\B(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(
        self,
        message: str,
        *,
        fix: str | None = None,
        field: str | None = None,
        value: JsonScalar = None,
        limit: JsonScalar = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.field = field
        self.value = value
        self.limit = limit
        self.retry_after = retry_after
        self.request_id: str | None = None

    def __str__(self) -> str:
        return f"{self.message}: {self.fix}" if self.fix else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, {**self.__dict__})

    def body(self) -> dict[str, JsonScalar]:
        """Return the error as the server's native answer carries it."""
        details = {"field": self.field, "value": self.value, "limit": self.limit, "fix": self.fix}
        return {"type": self.type, "message": self.message, **details}


def _rebuild(kind: type[NonnegError], message: str, state: dict[str, Any]) -> NonnegError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class RequestInvalid(NonnegError):
    """The request cannot be parsed at all."""

    status = 400


class Unauthorized(RequestInvalid):
    """No key was sent, or one that is not known."""

    status = 401


class Forbidden(RequestInvalid):
    """Another site's page sent the request, or it names another server."""

    status = 403


class NotFound(RequestInvalid):
    """What was asked for does not exist."""

    status = 404


class ModelNotFound(NotFound):
    """No model of this name is served."""


class MethodNotAllowed(RequestInvalid):
    """The path exists, but not for this method."""

    status = 405


class NotAcceptable(RequestInvalid):
    """The answer does not exist in that form."""

    status = 406


class RequestTimeout(RequestInvalid):
    """The body did not arrive in time."""

    status = 408


class TooLarge(RequestInvalid):
    """Something is over a limit: `limit` and `field` say which."""

    status = 413


class HeadTooLarge(TooLarge):
    """The request's line and headers are over the limit."""

    status = 431


class BodyTooLarge(TooLarge):
    """The body is over the limit."""


class TooManyImages(TooLarge):
    """The request has more images than the limit."""


class ImageTooLarge(TooLarge):
    """An image would take more pixels, memory or time than the limit."""


class MediaUnsupported(RequestInvalid):
    """The Content-Type is not one that is read here."""

    status = 415


class ImageUnsupported(RequestInvalid):
    """The bytes are not an image of a known format."""

    status = 415


class ImageUnreadable(RequestInvalid):
    """The image is broken or truncated."""

    status = 422


class LinkFailed(RequestInvalid):
    """An image's URL cannot be fetched."""

    status = 422


class ParameterInvalid(RequestInvalid):
    """A parameter has a value that it cannot have."""

    status = 422


class ExpressionInvalid(ParameterInvalid):
    """A query cannot be read: `field` holds the place."""


class LexiconMissing(ParameterInvalid):
    """The model has no text tower: it takes images only."""


class Overloaded(NonnegError):
    """The queue is full: `retry_after` says for how many seconds."""

    status = 429


class RateLimited(Overloaded):
    """This key sends requests too fast."""


class NotReady(NonnegError):
    """The server loads, drains, or its model failed."""

    status = 503


class DeadlineExceeded(NonnegError):
    """The answer was not ready in time."""

    status = 504


class ConnectionFailed(NonnegError):
    """The server cannot be reached."""


class ResponseInvalid(NonnegError):
    """The server answered something else."""


class FingerprintMismatch(NonnegError):
    """Vectors of two models would be mixed."""

    status = 409


class BundleInvalid(NonnegError):
    """The folder is not a bundle, or not a whole one."""


class DigestMismatch(BundleInvalid):
    """A file is not the one that was recorded."""


class SchemaUnknown(BundleInvalid):
    """The bundle's layout is of another version."""


class DataInvalid(NonnegError):
    """A folder, a data set or a file of vectors cannot be used."""


class CheckpointInvalid(NonnegError):
    """The checkpoint is truncated, or of another architecture."""


class TrainingStopped(NonnegError):
    """A health check ended the run: collapse, dead dimensions or NaN."""


class ConfigInvalid(NonnegError):
    """Options contradict each other."""


class CheckFailed(NonnegError):
    """A verification did not hold."""


class StorageFailed(NonnegError):
    """The disk is full, read-only or not writable."""


class MissingExtra(NonnegError):
    """A part of the package is not installed."""


def _family(kind: type[NonnegError]) -> dict[str, type[NonnegError]]:
    kinds = {kind.type: kind}
    for child in kind.__subclasses__():
        kinds |= _family(child)
    return kinds


BY_TYPE: dict[str, type[NonnegError]] = _family(NonnegError)
# One image's own fault: the others of its request go on.
OF_AN_IMAGE = (ImageUnsupported, ImageUnreadable, ImageTooLarge)
