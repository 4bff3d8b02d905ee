"""multipart/form-data, from a body that is already in memory and within its limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

from nonneg_core.errors import RequestInvalid
from nonneg_server.requests.images import check_count

MAX_FIELD = 4096  # bytes a parameter may have
MAX_FIELDS = 64
MAX_OPTIONS = 32  # of one header, `; name=value` each


@dataclass
class Form:
    """The files, in order, and the parameters."""

    files: list[bytes] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # each file's field name
    parameters: list[tuple[str, str]] = field(default_factory=list)


def parse_form(body: bytes, content_type: str, most: int) -> Form:
    """Split `body` at its boundary; a part with a filename is a file, one without is a parameter.

    Of files there are at most `most`: counted as they are found, for empty parts are many in a few bytes.
    """
    boundary = _options(content_type.encode("latin-1", "replace"), "content-type").get(b"boundary")
    if not boundary:
        raise RequestInvalid(
            "multipart/form-data without a boundary",
            fix="let the HTTP library set the Content-Type",
            field="content-type",
            value=content_type[:80],
        )
    reader = _Reader(most)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        parser.write(body)
        parser.finalize()
    except (FormParserError, UnicodeDecodeError):
        raise _broken("a part's head or a boundary cannot be read, or a head has too many lines") from None
    if not reader.ended:
        raise _broken("the last boundary is missing")
    return reader.form


def _options(header: bytes, field: str) -> dict[bytes, bytes]:
    """Read the options of a header, counted first: each costs, and a megabyte has room for a million."""
    if header.count(b";") > MAX_OPTIONS:
        raise RequestInvalid(
            f"a {field} has more than {MAX_OPTIONS} options",
            fix="send those that a form needs: a boundary, a name, a filename",
            field=field,
            limit=MAX_OPTIONS,
        )
    return parse_options_header(header)[1]


def _broken(why: str) -> RequestInvalid:
    return RequestInvalid(f"the form is broken or cut off ({why})", fix="send the whole body", field="body")


class _Reader:
    """Gathers what the parser calls back."""

    def __init__(self, most: int) -> None:
        self.form = Form()
        self._most = most
        self.ended = False
        self._begin()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._field.append(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.append(data[start:end]),
            "on_header_end": self._header,
            "on_part_data": lambda data, start, end: self._data.append(data[start:end]),
            "on_part_end": self._part,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._data: list[bytes] = []
        self._field: list[bytes] = []
        self._value: list[bytes] = []
        self._disposition = b""

    def _header(self) -> None:
        if b"".join(self._field).lower() == b"content-disposition":
            self._disposition = b"".join(self._value)
        self._field, self._value = [], []

    def _part(self) -> None:
        options = _options(self._disposition, "content-disposition")
        name = options.get(b"name", b"").decode()
        content = self._data[0] if len(self._data) == 1 else b"".join(self._data)
        if b"filename" in options:
            self.form.files.append(content)
            check_count(len(self.form.files), self._most)
            self.form.names.append(name)
            return
        if len(self.form.parameters) == MAX_FIELDS:
            raise RequestInvalid(
                f"the form has more than {MAX_FIELDS} parameters",
                fix="send only those there are",
                field="body",
                limit=MAX_FIELDS,
            )
        if len(content) > MAX_FIELD:
            raise RequestInvalid(
                f"the form's field {name!r} has {len(content)} bytes, a parameter has at most {MAX_FIELD}",
                fix="send an image with a filename: curl -F images=@photo.jpg",
                field=name,
                value=len(content),
                limit=MAX_FIELD,
            )
        self.form.parameters.append((name, content.decode()))

    def _end(self) -> None:
        self.ended = True
