"""The form of an answer: the first media type of the Accept header that is available."""

from __future__ import annotations

from types import ModuleType

from nonneg_core.errors import NotAcceptable
from nonneg_server.answers import as_arrow, as_json, as_msgpack, as_npy

FORMS: dict[str, ModuleType] = {form.MEDIA_TYPE: form for form in (as_json, as_msgpack, as_npy, as_arrow)}
MOST_WISHES = 32  # media types in one Accept header
_ALIASES = {
    "*/*": as_json,
    "application/*": as_json,
    "application/x-msgpack": as_msgpack,
    "application/vnd.msgpack": as_msgpack,
}


def form_for(accept: str | None) -> ModuleType:
    """Return the module that writes the answer: it has MEDIA_TYPE, check(parameters) and write(answer)."""
    if accept is None or accept in ("*/*", "application/json", ""):
        return as_json
    if accept.count(",") >= MOST_WISHES:
        raise NotAcceptable(
            f"the header names more than {MOST_WISHES} media types",
            fix=f"accept one of {', '.join(FORMS)}",
            field="accept",
            limit=MOST_WISHES,
        )
    for wish in _wishes(accept):
        form = FORMS.get(wish) or _ALIASES.get(wish)
        if form is not None:
            return form
    raise NotAcceptable(
        f"no answer in {accept!r}", fix=f"accept one of {', '.join(FORMS)}", field="accept", value=accept[:200]
    )


def _wishes(accept: str) -> list[str]:
    """Return the media types, the most wanted first; those with q=0 are not wanted at all."""
    weighted: list[tuple[float, str]] = []
    for entry in accept.split(","):
        kind, *options = (part.strip().lower() for part in entry.split(";"))
        weighted.append((next((_quality(o[2:]) for o in options if o.startswith("q=")), 1.0), kind))
    return [kind for quality, kind in sorted(weighted, key=lambda found: -found[0]) if quality > 0]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
