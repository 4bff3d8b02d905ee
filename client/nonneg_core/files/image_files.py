"""Where images lie: folders, globs, names and tar files become files, and files have ids within a root."""

import glob
import os
import stat
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.formats import OF_IMAGES

LARGEST = 256 * 2**20  # bytes of a photo's file
RAW = "3fr arw cr2 cr3 crw dng erf kdc mef mos mrw nef nrw orf pef raf raw rw2 rwl srf srw x3f"
VIDEOS = "3gp avi m2ts m4v mkv mov mp4 mpeg mpg mts webm wmv"
PASSED_OVER = {*RAW.split(), *VIDEOS.split()}  # endings


def find(name: str) -> Iterable[Path]:
    """Return the files that a path, a glob or a folder stands for."""
    if not name:
        raise DataInvalid("an empty path names nothing", fix='give a path; "." is this folder')
    path = Path(name).expanduser()
    if path.is_dir():
        return find_images(path)
    if not glob.has_magic(name) or path.exists():
        return [path]
    paths = sorted(Path(p) for p in glob.glob(str(path), recursive=True))  # noqa: PTH207  absolute patterns too
    files = [p for p in paths if p.is_file()]
    if not files:
        raise DataInvalid(f"no file matches {name}", fix="check the pattern, and quote it against the shell")
    return files


def find_images(folder: Path) -> list[Path]:
    """Return every image file below a folder, sorted by path; hidden files and folders are passed over."""
    return list(walk_images(folder))


def walk_images(folder: Path) -> Iterator[Path]:
    """Yield the same one by one, of a folder that holds more than memory should."""
    nonempty = False
    try:
        for path in _walk(folder, folder):
            nonempty = True
            yield path
    except OSError as error:
        raise DataInvalid(
            f"{error.filename or folder} cannot be read ({error.strerror})", fix="check the path and its permissions"
        ) from error
    if not nonempty:
        raise DataInvalid(
            f"{folder} holds no images",
            fix="give a folder with .jpg, .png, .webp or other image files in it; their names must end so",
        )


def find_passed_over(folder: Path) -> dict[str, int]:
    """Return how many RAW files and videos lie below a folder, by ending: of these no photo is read."""
    names = (name for _, _, files in os.walk(folder) for name in files if not name.startswith("."))
    endings = Counter(PurePosixPath(name).suffix.lower().removeprefix(".") for name in names)
    return {ending: count for ending, count in sorted(endings.items()) if ending in PASSED_OVER}


def label_of(path: Path, root: Path) -> str:
    """Return the class of an image: the first folder below the root; empty directly in the root."""
    within = path.relative_to(root).parts
    return within[0] if len(within) > 1 else ""


def labels_of(paths: Iterable[Path], root: Path) -> tuple[str, ...]:
    """Return the class of each image below the root; DataInvalid where one lies in no class folder."""
    labels = []
    for path in paths:
        labels.append(label_of(path, root))
        if not labels[-1]:
            raise DataInvalid(
                f"{path} lies in no labelled subfolder of {root}",
                fix="put the images of each label into a subfolder of its name: folder/class/image.jpg",
                value=str(path),
            )
    return tuple(labels)


def _walk(folder: Path, root: Path) -> Iterator[Path]:
    for name in sorted(os.listdir(folder)):  # noqa: PTH208  a million names take a tenth of a million paths
        if name.startswith("."):
            continue
        entry = folder / name
        if entry.is_dir():
            if not leads_back(entry, root):
                yield from _walk(entry, root)
        elif entry.suffix.lower() in OF_IMAGES and ends(entry):
            yield entry


def leads_back(folder: Path, root: Path) -> bool:
    """Return whether it is a link to a folder that it lies in, or that the way from the root went through.

    To follow it is to find everything forty times. Two links to one folder that lies elsewhere are both followed: in
    training each gives its own label.
    """
    if not folder.is_symlink():
        return False
    if folder.parent.resolve().is_relative_to(folder.resolve()):
        return True
    way = [above for above in folder.parents if above.is_relative_to(root)]
    return any(above.samefile(folder) for above in way)  # by device and inode


def ends(path: Path) -> bool:
    """Return whether to read it ends, as with no pipe, socket or device; reading what cannot be asked says why."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def path_text(path: Path) -> str:
    """Return a path as text that every file and database takes: bytes that are not UTF-8 are written as their codes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read_image(path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataInvalid(
            f"{path} cannot be read ({error.strerror})", fix="check the path and its permissions", value=str(path)
        ) from error


# A file inside a tar file: its place, found by the headers, so that it is read without opening the archive again.


@dataclass(frozen=True)
class TarSpan:
    """So many bytes from there, in an archive that is not compressed."""

    archive: Path
    name: str
    offset: int
    size: int

    @property
    def is_image(self) -> bool:
        """Whether its name ends as an image's."""
        return PurePosixPath(self.name).suffix.lower() in OF_IMAGES

    def read(self) -> bytes:
        """Return the bytes; DataInvalid where the archive has fewer."""
        try:
            with self.archive.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except OSError as error:
            raise DataInvalid(
                f"{self.archive}/{self.name} cannot be read ({error.strerror})", fix="check the archive"
            ) from error
        if len(data) != self.size:
            raise DataInvalid(f"{self.archive} breaks off within {self.name}", fix="copy the archive again")
        return data


def places(archive: Path) -> Iterator[TarSpan]:
    """Yield the files of an archive, in its order; errors are tarfile's and the system's."""
    with tarfile.open(archive, mode="r:") as tar:
        for entry in tar:
            if entry.isfile():
                yield TarSpan(archive, entry.name, entry.offset_data, entry.size)


def sample_of(name: str) -> tuple[str, str]:
    """Return the key that all files of one WebDataset sample share, and the rest of the name: `a/7.cls` -> a/7, cls."""
    folder, slash, last = name.rpartition("/")
    stem, _, suffix = last.partition(".")
    return f"{folder}{slash}{stem}", suffix.lower()


# Ids: the path of an image within a root folder; what lies outside of it has its absolute path, and a URL is its own.

Stamp = tuple[int, int]  # bytes and time of the last change: what an edited file differs in


def identity(path: Path, root: Path) -> str:
    """Return the id of a file with this absolute path."""
    return path_text(path.relative_to(root) if path.is_relative_to(root) else path)


def place_of(name: str, root: str) -> str:
    """Return where an image with this id lies."""
    return name if is_url(name) or not root else str(Path(root) / name)


def read_within(place: str, *roots: str) -> bytes:
    """Return the bytes of an image that lies in one of these folders; an empty one stands for the current folder.

    Where images lie is said by indexes and files of vectors, which may be anyone's: nothing else is opened or fetched.
    """
    path = next((path for root in roots if not is_url(place) and (path := resolved(Path(place), Path(root)))), None)
    if path is None:
        folders = " or ".join(root or "the current folder" for root in roots)
        raise DataInvalid(f"{place} does not lie in {folders}", fix="go to the folder of the images", value=place)
    data = None
    with suppress(OSError):
        data = regular_file(path)
    if data is None:
        raise DataInvalid(f"{place} cannot be read", fix="check the path and its permissions", value=place)
    return data


def resolved(path: Path, root: Path) -> Path | None:
    """Return what a path leads to; None where that lies outside of the root, or the root is the whole file system."""
    try:
        target, folder = path.resolve(), root.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a name no file can have
        return None
    return target if target.is_relative_to(folder) and folder != folder.parent else None


def regular_file(path: Path) -> bytes | None:
    """Return what is in it; None where something else has its place by now, or it is larger than any photo."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:  # noqa: PTH123  a path would be looked up again
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read(LARGEST + 1)
    return data if len(data) <= LARGEST else None


def stamp(path: Path | None) -> Stamp | None:
    """Return what shows that a file was changed; None for what is not a file."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, int(status.st_mtime)


def is_url(name: str) -> bool:
    """Return whether an id is an address on the web."""
    return name.startswith(("http://", "https://"))
