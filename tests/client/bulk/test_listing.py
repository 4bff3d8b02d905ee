"""What sources stand for: the same images under the same names as in a file of vectors, in groups that stay."""

from __future__ import annotations

import gzip
import pickle
import tarfile
from pathlib import Path

import pytest

from nonneg_client.bulk.groups import cut
from nonneg_client.bulk.listing import Sources, groups
from nonneg_client.sources.rooted_images import root_of, rooted
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid
from nonneg_vectors.storage.addresses import Address

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def listed(*names: str, size: int = 4, column: str | None = None, ids: str | None = None) -> dict[str, bytes]:
    found = list(groups(Sources(names, size, column, ids)))
    return {name: group.reader.read(i) for group in found for i, name in enumerate(group.ids)}


@pytest.fixture(scope="module")
def tar(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tars") / "cats.tar"
    with tarfile.open(path, "w") as archive:
        for photo in sorted((photos / "cat").iterdir()):
            archive.add(photo, f"some/{photo.name}")
        archive.addfile(tarfile.TarInfo("some/label.txt"))
    return path


@pytest.fixture(scope="module")
def parquet(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lake") / "cats.parquet"
    files = sorted((photos / "cat").iterdir())
    rows = [{"image": {"bytes": file.read_bytes(), "path": None}, "key": file.stem, "label": 1} for file in files]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    return path


def test_a_folder_gives_the_same_images_under_the_same_names_as_for_a_file(photos: Path, tmp_path: Path) -> None:
    found = listed(str(photos))
    expected = {item.id: item.load() for item in rooted([str(photos)], root_of([str(photos)]))}
    assert found == expected
    (tmp_path / "a").symlink_to(photos)
    assert listed(str(tmp_path / "a")) == expected


def test_hidden_files_and_links_that_lead_back_are_passed_over(photos: Path, tmp_path: Path) -> None:
    photo = sorted((photos / "cat").iterdir())[0].read_bytes()
    for name in ("a.jpg", ".b.jpg", "sub/c.jpg", ".sub/d.jpg", "sub/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(photo)
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    assert set(listed(str(tmp_path))) == {"a.jpg", "sub/c.jpg"}


def test_addresses_on_the_web_are_grouped_and_what_is_named_twice_is_listed_once(photos: Path) -> None:
    photo = str(sorted((photos / "cat").iterdir())[0])
    addresses = tuple(f"http://127.0.0.1:1/{i}.jpg" for i in range(3))
    sources = Sources((*addresses, photo, photo.replace("cat-0", "cat-?"), addresses[0]), 9, within="/", apart=False)
    (links, *files) = groups(sources)
    assert (links.ids, links.reader.threads > 1) == (addresses, True)
    assert len({own for group in files for own in group.ids}) == sum(len(group.ids) for group in files)
    assert links.without({addresses[1]}).ids == (addresses[0], addresses[2])
    assert [item.id for item in links.without({addresses[0]}).items()] == list(addresses[1:])


def test_a_glob_gives_what_matches(photos: Path) -> None:
    expected = {path.name for path in (photos / "cat").glob("*-[12].jpg")}
    assert set(listed(f"{photos}/cat/*-[12].jpg")) == expected
    assert set(listed(f"{photos}/**/cat-?.jpg")) == {f"cat/{path.name}" for path in (photos / "cat").iterdir()}
    with pytest.raises(DataInvalid, match="no images"):
        listed(f"{photos}/*.tif")


def test_a_tar_file_is_listed_by_its_headers_and_read_in_place(tar: Path, photos: Path) -> None:
    found = listed(str(tar), size=2)
    assert found == {f"cats.tar/some/{p.name}": p.read_bytes() for p in sorted((photos / "cat").iterdir())}
    assert found == {item.id: item.load() for item in rooted([str(tar)], tar.parent)}


def test_a_compressed_tar_file_gives_what_the_plain_one_does_and_travels_without_what_was_unpacked(
    tar: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "cats.tar.gz"
    packed.write_bytes(gzip.compress(tar.read_bytes()))
    plain = {name.removeprefix("cats.tar/"): data for name, data in listed(str(tar), size=2).items()}
    assert {name.removeprefix("cats.tar.gz/"): data for name, data in listed(str(packed), size=2).items()} == plain
    (group, *_) = groups(Sources((str(packed),), 2))
    assert pickle.loads(pickle.dumps(group)).reader.read(0) == next(iter(plain.values()))


def test_a_broken_or_compressed_tar_file_is_refused(tar: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.tar").write_bytes(b"junk" * 1000)
    with pytest.raises(DataInvalid, match=r"junk\.tar is not a tar file"):
        listed(str(tmp_path / "junk.tar"))
    (tmp_path / "a.tar.zst").write_bytes(b"")
    with pytest.raises(DataInvalid, match="is compressed in a way that is not read"):
        listed(str(tmp_path / "a.tar.zst"))
    half = tmp_path / "half.tar"
    half.write_bytes(tar.read_bytes()[:2000])
    with pytest.raises(DataInvalid):
        listed(str(half))


def test_a_parquet_files_column_is_found_and_its_rows_are_numbered_or_named(parquet: Path, photos: Path) -> None:
    expected = [path.read_bytes() for path in sorted((photos / "cat").iterdir())]
    assert listed(str(parquet), size=3) == {f"cats.parquet/{row}": data for row, data in enumerate(expected)}
    assert list(listed(str(parquet), column="image", ids="key")) == [f"cat-{i}" for i in range(5)]
    assert len(listed(str(parquet.parent), column="image")) == 5
    with pytest.raises(DataInvalid, match=r"no column 'photo'.*image, key, label"):
        listed(str(parquet), column="photo")


def test_an_object_store_is_listed_and_read_as_a_folder_is(photos: Path, tar: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for photo in sorted((photos / "cat").iterdir()):
        memory.pipe(f"/lake/cat/{photo.name}", photo.read_bytes())
    memory.pipe("/lake/cats.tar", tar.read_bytes())
    expected = {p.name: p.read_bytes() for p in sorted((photos / "cat").iterdir())}
    assert listed("memory://lake/cat") == expected
    assert listed("memory://lake/*/cat-1.jpg") == {"cat/cat-1.jpg": expected["cat-1.jpg"]}
    assert list(listed("memory://lake/*.tar").values()) == list(expected.values())


@pytest.mark.slow
def test_what_is_not_there_or_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataInvalid, match="gone is not there"):
        listed(str(tmp_path / "gone"))
    with pytest.raises(DataInvalid, match="no images"):
        listed(str(tmp_path))
    with pytest.raises(DataInvalid, match="is a link"):
        listed("https://example.org/a.jpg")
    with pytest.raises(DataInvalid, match="nowhere is not known"):
        listed("nowhere://a/b")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(ConnectionFailed, match="s3://bucket/a"):
        listed("s3://bucket/a")


def test_sources_that_would_give_an_image_twice_are_refused(photos: Path) -> None:
    for sources in (
        (photos, photos / "cat"),
        (photos, photos / "cat" / "cat-1.jpg"),
        (photos, f"{photos}/**/*.jpg"),
        (photos / "cat", f"{photos}/**/*.jpg"),
        (f"{photos}/c*/*.jpg", f"{photos}/*/cat-*"),
        (f"{photos}/cat/*.jpg", photos / "cat" / "cat-1.jpg"),
        (photos, f"{photos}/"),
        (photos / "cat" / "cat-1.jpg", f"{photos}/../{photos.name}/cat/cat-1.jpg"),
    ):
        with pytest.raises(ConfigInvalid, match="may name the same image"):
            listed(*map(str, sources))
    assert len(listed(str(photos / "cat"), str(photos / "cat"))) == 5
    assert set(listed(str(photos / "cat"), str(photos / "coffee"))) > {"cat/cat-0.jpg", "coffee/coffee-0.jpg"}


def test_sources_that_have_no_image_in_common_may_lie_beside_each_other(
    photos: Path, tar: Path, tmp_path: Path
) -> None:
    assert len(listed(f"{photos}/cat/*-1.jpg", f"{photos}/cat/*-2.jpg")) == 2
    assert len(listed(f"{photos}/ca*/*-1.jpg", f"{photos}/co*/*-1.jpg")) >= 2
    assert len(listed(str(photos / "cat" / "cat-1.jpg"), str(photos / "cat" / "cat-2.jpg"))) == 2
    assert len(listed(f"{photos}/cat/*-1.jpg", str(photos / "cat" / "cat-2.jpg"))) == 2
    (tmp_path / "a.tar").write_bytes(tar.read_bytes())
    (tmp_path / "b[1].jpg").write_bytes((photos / "cat" / "cat-1.jpg").read_bytes())
    assert len(listed(str(tmp_path), str(tmp_path / "a.tar"))) == 6
    assert len(listed(str(tmp_path / "b[1].jpg"), f"{tmp_path}/*.tar")) == 6


def test_a_row_without_an_id_or_with_one_that_was_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for keys, said in ((["a", None], "has no id in row 1 of the column 'key'"), (["a", "a"], "holds 'a' twice")):
        pyarrow.parquet.write_table(pyarrow.table({"image": [b"1", b"2"], "key": keys}), path, row_group_size=1)
        with pytest.raises(DataInvalid, match=said):
            listed(str(path), ids="key")


def test_a_tar_file_with_a_name_twice_is_refused(tar: Path, photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar.read_bytes())
    with tarfile.open(path, "a") as archive:
        archive.add(photos / "cat" / "cat-1.jpg", "some/cat-1.jpg")
    with pytest.raises(DataInvalid, match=r"holds 'some/cat-1\.jpg' twice"):
        listed(str(path))


def test_files_that_hold_no_image_are_called_empty(tmp_path: Path) -> None:
    tarfile.open(tmp_path / "a.tar", "w").close()
    pyarrow.parquet.write_table(pyarrow.table({"image": pyarrow.array([], "binary")}), tmp_path / "b.parquet")
    with pytest.raises(DataInvalid, match=r"a\.tar, .*b\.parquet: no images"):
        listed(str(tmp_path / "a.tar"), str(tmp_path / "b.parquet"))


def test_one_photo_more_changes_the_groups_around_it_alone() -> None:
    names = [f"{i:05}.jpg" for i in range(3000)]
    before = {tuple(some) for some in cut(names, 50, str)}
    after = {tuple(some) for some in cut(sorted([*names, "01500a.jpg"]), 50, str)}
    assert sorted(name for some in before for name in some) == names
    assert all(25 <= len(some) <= 100 for some in sorted(before)[:-1])
    assert len(after - before) <= 4
    assert list(cut([], 50, str)) == []
    assert list(cut(iter("abc"), 1, str)) == [["a"], ["b"], ["c"]]


def test_groups_are_small_when_they_travel(photos: Path) -> None:
    (group, *_) = groups(Sources((str(photos),), 1000))
    assert len(pickle.dumps(group)) < 100 * len(group.ids) + 1000
    assert pickle.loads(pickle.dumps(group)).name == group.name


def test_an_address_knows_its_parts() -> None:
    address = Address.of("s3://bucket/folder/a.jpg")
    assert (str(address), address.name, str(address.parent)) == (
        "s3://bucket/folder/a.jpg",
        "a.jpg",
        "s3://bucket/folder",
    )
    assert address.within(Address.of("s3://bucket")) == "folder/a.jpg"
    assert Address.of("file:///a/b") == Address.of("/a/b")
