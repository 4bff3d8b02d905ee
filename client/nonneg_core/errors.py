"""Every error nonneg raises, on the server, in the client and on the command line: one tree.

NonnegError                      500  internal
├── RequestInvalid               400  request_invalid       the request cannot be parsed at all
│   ├── Unauthorized             401  unauthorized
│   ├── Forbidden                403  forbidden             asked by another site's page, or not by this name
│   ├── NotFound                 404  not_found
│   │   └── ModelNotFound        404  model_not_found
│   ├── MethodNotAllowed         405  method_not_allowed
│   ├── NotAcceptable            406  not_acceptable        the answer is not to be had in that form
│   ├── RequestTimeout           408  request_timeout       the body did not arrive in time
│   ├── TooLarge                 413  too_large             `limit` and `field` say which limit
│   │   ├── HeadTooLarge         431  head_too_large
│   │   ├── BodyTooLarge         413  body_too_large
│   │   ├── TooManyImages        413  too_many_images
│   │   └── ImageTooLarge        413  image_too_large
│   ├── MediaUnsupported         415  media_unsupported     a Content-Type that is not understood
│   ├── ImageUnsupported         415  image_unsupported     these bytes are not an image of a known format
│   ├── ImageUnreadable          422  image_unreadable      an image, but broken or truncated
│   ├── LinkFailed               422  link_failed           an image's URL that cannot be fetched
│   └── ParameterInvalid         422  parameter_invalid
│       ├── ExpressionInvalid    422  expression_invalid    a query that cannot be read: `field` holds the place
│       └── LexiconMissing       422  lexicon_missing       the model has no text tower: it takes images only
├── Overloaded                   429  overloaded            the queue is full: `retry_after` seconds
│   └── RateLimited              429  rate_limited          this key asks too fast
├── NotReady                     503  not_ready             loading, draining, or the model failed
├── DeadlineExceeded             504  deadline_exceeded
├── ConnectionFailed              -   connection_failed     the server cannot be reached
├── ResponseInvalid               -   response_invalid      the server answered something else
├── FingerprintMismatch           -   fingerprint_mismatch  vectors of two models would be mixed
├── BundleInvalid                 -   bundle_invalid        not a bundle, or not a whole one
│   ├── DigestMismatch            -   digest_mismatch
│   └── SchemaUnknown             -   schema_unknown
├── DataInvalid                   -   data_invalid          a folder, a data set, a file of vectors
├── CheckpointInvalid             -   checkpoint_invalid    truncated, or of another architecture
├── TrainingStopped               -   training_stopped      a health gate: collapse, dead dimensions, NaN
├── ConfigInvalid                 -   config_invalid        options that contradict each other
├── CheckFailed                   -   check_failed          a verification did not hold
├── StorageFailed                 -   storage_failed        disk full, read-only, not writable
└── MissingExtra                  -   missing_extra         a part that is not installed

An error says what, with which value, and how to fix it.
"""

from __future__ import annotations

from typing import Any, ClassVar

JsonScalar = str | int | float | bool | None


class NonnegError(Exception):
    """Something went wrong; `type` names it for programs, `fix` tells people what to do."""

    type: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

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
    type = "request_invalid"
    status = 400


class Unauthorized(RequestInvalid):
    type = "unauthorized"
    status = 401


class Forbidden(RequestInvalid):
    type = "forbidden"
    status = 403


class NotFound(RequestInvalid):
    type = "not_found"
    status = 404


class ModelNotFound(NotFound):
    type = "model_not_found"


class MethodNotAllowed(RequestInvalid):
    type = "method_not_allowed"
    status = 405


class NotAcceptable(RequestInvalid):
    type = "not_acceptable"
    status = 406


class RequestTimeout(RequestInvalid):
    type = "request_timeout"
    status = 408


class TooLarge(RequestInvalid):
    type = "too_large"
    status = 413


class HeadTooLarge(TooLarge):
    type = "head_too_large"
    status = 431


class BodyTooLarge(TooLarge):
    type = "body_too_large"


class TooManyImages(TooLarge):
    type = "too_many_images"


class ImageTooLarge(TooLarge):
    type = "image_too_large"


class MediaUnsupported(RequestInvalid):
    type = "media_unsupported"
    status = 415


class ImageUnsupported(RequestInvalid):
    type = "image_unsupported"
    status = 415


class ImageUnreadable(RequestInvalid):
    type = "image_unreadable"
    status = 422


class LinkFailed(RequestInvalid):
    type = "link_failed"
    status = 422


class ParameterInvalid(RequestInvalid):
    type = "parameter_invalid"
    status = 422


class ExpressionInvalid(ParameterInvalid):
    type = "expression_invalid"


class LexiconMissing(ParameterInvalid):
    type = "lexicon_missing"


class Overloaded(NonnegError):
    type = "overloaded"
    status = 429


class RateLimited(Overloaded):
    type = "rate_limited"


class NotReady(NonnegError):
    type = "not_ready"
    status = 503


class DeadlineExceeded(NonnegError):
    type = "deadline_exceeded"
    status = 504


class ConnectionFailed(NonnegError):
    type = "connection_failed"


class ResponseInvalid(NonnegError):
    type = "response_invalid"


class FingerprintMismatch(NonnegError):
    type = "fingerprint_mismatch"


class BundleInvalid(NonnegError):
    type = "bundle_invalid"


class DigestMismatch(BundleInvalid):
    type = "digest_mismatch"


class SchemaUnknown(BundleInvalid):
    type = "schema_unknown"


class DataInvalid(NonnegError):
    type = "data_invalid"


class CheckpointInvalid(NonnegError):
    type = "checkpoint_invalid"


class TrainingStopped(NonnegError):
    type = "training_stopped"


class ConfigInvalid(NonnegError):
    type = "config_invalid"


class CheckFailed(NonnegError):
    type = "check_failed"


class StorageFailed(NonnegError):
    type = "storage_failed"


class MissingExtra(NonnegError):
    type = "missing_extra"


def _family(kind: type[NonnegError]) -> dict[str, type[NonnegError]]:
    kinds = {kind.type: kind}
    for child in kind.__subclasses__():
        kinds |= _family(child)
    return kinds


BY_TYPE: dict[str, type[NonnegError]] = _family(NonnegError)
OF_AN_IMAGE = (
    ImageUnsupported,
    ImageUnreadable,
    ImageTooLarge,
)  # one image's own fault: the others of its request go on
