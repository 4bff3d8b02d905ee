"""Selected photos for other programs: a table, a list of paths, XMP sidecars in a zip file, or copies in a folder."""

import io
import shutil
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from nonneg_core.errors import ParameterInvalid
from nonneg_core.files.csv_table import table_text
from nonneg_core.files.image_files import stamp

COLUMNS = ("path", "tags", "albums", "taken", "camera", "width", "height", "dimensions")
Row = Mapping[str, Any]  # a photo: its path within the folder as `name`, and what is known of it

XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/" xmlns:digiKam="http://www.digikam.org/ns/1.0/">
   <dc:subject><rdf:Bag>{words}</rdf:Bag></dc:subject>
   <lr:hierarchicalSubject><rdf:Bag>{words}</rdf:Bag></lr:hierarchicalSubject>
   <digiKam:TagsList><rdf:Seq>{words}</rdf:Seq></digiKam:TagsList>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


def as_csv(rows: Iterable[Row]) -> bytes:
    """Return a line a photo: its tags, albums, date, camera, size, and its strongest dimensions with a name."""
    return table_text(COLUMNS, [[_cell(row, column) for column in COLUMNS] for row in rows]).encode()


def as_paths(rows: Iterable[Row], root: Path) -> bytes:
    """Return the whole path of every photo, one a line."""
    return "".join(f"{root / row['name']}\n" for row in rows).encode("utf-8", "surrogateescape")


def sidecar(keywords: Sequence[str]) -> str:
    """Return an XMP file with these keywords, as digiKam, darktable and Lightroom read them."""
    return XMP.format(words="".join(f"<rdf:li>{escape(word)}</rdf:li>" for word in keywords))


def as_sidecars(rows: Iterable[Row]) -> bytes:
    """Return a zip file of `path/photo.jpg.xmp`, to be unpacked over the folder of the photos."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for row in rows:
            archive.writestr(f"{row['name']}.xmp", sidecar([*row["tags"], *row["albums"]]))
    return buffer.getvalue()


def copy_into(target: str, rows: Sequence[Row], root: Path) -> dict[str, Any]:
    """Copy the files into a folder, by their paths in the folder of the photos; nothing that is there is replaced."""
    folder = Path(target).expanduser()
    if not folder.is_absolute() or folder.resolve().is_relative_to(root.resolve()):
        raise ParameterInvalid(
            f"photos are not copied to {target[:200]!r}",
            fix="name a folder by its whole path, outside of the folder of the photos",
            field="to",
            value=target[:200],
        )
    copied, there, gone = 0, 0, 0
    for row in rows:
        source, place = root / row["name"], folder / row["name"]
        if place.exists():
            there += 1
        elif stamp(source) is None or not source.resolve().is_relative_to(root.resolve()):
            gone += 1
        else:
            _copy(source, place)
            copied += 1
    return {"to": str(folder), "copied": copied, "there_already": there, "gone": gone}


def _copy(source: Path, place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)
    except OSError as error:
        raise ParameterInvalid(
            f"{place} cannot be written ({error.strerror})", fix="name another folder", field="to", value=str(place)
        ) from error


def _cell(row: Row, column: str) -> Any:
    if column == "path":
        return row["name"]
    if column == "taken" and "taken" in row:
        return datetime.fromtimestamp(row["taken"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    value = row.get(column, "")
    return "; ".join(value) if isinstance(value, list) else value
