"""Files as tfos sees them: the same on this host, HDFS, viewfs and a file system of short reads."""

from __future__ import annotations

import concurrent.futures
import errno
import io
import os
import random
import uuid

import pyarrow as pa
import pytest
from pyarrow import parquet

from support.files.remote_files import read_bytes, write_bytes
from tfos import records
from tfos.errors import BadInputError
from tfos.files import hadoop_client
from tfos.files.access import access_for, native_path
from tfos.files.interface import FileStatus, parent_of, walk

#: More than Hadoop gives at once when it lists (dfs.ls.limit).
MANY_FILES = 1_100


@pytest.fixture(params=["local", "hdfs", "viewfs", "faulty"])
def root(request, empty_directory):
    return empty_directory(request.param)


def test_files_and_directories(root):
    access, root = access_for(root)
    access.mkdirs(f"{root}/a/b")
    access.mkdirs(f"{root}/a/b")
    write_bytes(f"{root}/a/f", b"four")
    write_bytes(f"{root}/a/f", b"three")
    assert access.status(f"{root}/a") == FileStatus(f"{root}/a", True, 0)
    assert access.status(f"{root}/a/f") == FileStatus(f"{root}/a/f", False, 5)
    assert access.status(f"{root}/none") is None
    assert access.list(f"{root}/a") == [
        FileStatus(f"{root}/a/b", True, 0),
        FileStatus(f"{root}/a/f", False, 5),
    ]
    for missing in (access.list, access.open):
        with pytest.raises(FileNotFoundError, match="none"):
            missing(f"{root}/none")
    with pytest.raises(NotADirectoryError, match="a/f"):
        access.list(f"{root}/a/f")
    write_bytes(f"{root}/a/b/b", b"")
    assert access.list(f"{root}/a/b") == [FileStatus(f"{root}/a/b/b", False, 0)]

    write_bytes(f"{root}/g", b"new")
    access.rename(f"{root}/g", f"{root}/a/f")
    with access.open(f"{root}/a/f") as file:
        assert file.read() == b"new"
    with pytest.raises(FileNotFoundError):
        access.rename(f"{root}/g", f"{root}/h")

    for path in (f"{root}/a", f"{root}/none"):
        access.delete_if_empty(path)
    assert access.status(f"{root}/a") is not None
    for path in (f"{root}/a/b", f"{root}/a/f", f"{root}/none"):
        access.delete(path)
    access.delete_if_empty(f"{root}/a")
    assert access.list(root) == []


# The file system of s3a:// and the one of short reads have FileSystem's own rename.
@pytest.mark.parametrize("root", ["local", "hdfs", "viewfs", "faulty", "s3a"], indirect=True)
def test_a_file_stays_that_is_renamed_onto_itself(root):
    access, root = access_for(root)
    access.mkdirs(f"{root}/d")
    write_bytes(f"{root}/d/f", b"kept")
    for target in (f"{root}/d/f", f"{root}//d/../d/f"):
        access.rename(f"{root}/d/f", target)
        assert read_bytes(f"{root}/d/f") == b"kept"
    access.rename(f"{root}/d", f"{root}/d")
    assert read_bytes(f"{root}/d/f") == b"kept"
    with pytest.raises(FileNotFoundError, match="none"):
        access.rename(f"{root}/none", f"{root}/none")


def test_patterns_and_hidden_files(root):
    access, root = access_for(root)
    for name in (
        "day=1/part-0",
        "day=1/_SUCCESS",
        "day=2/part-0",
        "day=2/part-1",
        "day=2/part-2._COPYING_",
        "other",
        ".hidden/x",
        "_hidden/x",
        "_day=3/part-0",
    ):
        access.mkdirs(f"{root}/{name}".rpartition("/")[0])
        write_bytes(f"{root}/{name}", b"x")

    def names(pattern):
        return [path.removeprefix(f"{root}/") for path in access.glob(f"{root}/{pattern}")]

    assert names("day=*") == ["day=1", "day=2"]
    assert names("*") == ["_day=3", "_hidden", "day=1", "day=2", "other"]
    assert names("day=?/part-[0-1]") == ["day=1/part-0", "day=2/part-0", "day=2/part-1"]
    assert names("day=?/part-[^1]") == names("day=?/part-[!1]") == ["day=1/part-0", "day=2/part-0"]
    assert names("*/part-1") == ["day=2/part-1"]
    assert names(".h*/*") == [".hidden/x"]
    assert names("none/*") == names("o*/x") == names("none") == []
    assert [status.path.removeprefix(f"{root}/") for status in walk(access, root)] == [
        "_day=3/part-0",
        "day=1/part-0",
        "day=2/part-0",
        "day=2/part-1",
        "other",
    ]


def test_files_are_read_at_any_place(root):
    access, root = access_for(root)
    data = random.Random(7).randbytes((1 << 20) + 13)
    write_bytes(f"{root}/f", data)
    with access.open(f"{root}/f") as file:
        assert file.seek(0, io.SEEK_END) == len(data)
        assert file.read(1) == b""
        for begin in (500_000, 3, 0, len(data) - 5):
            file.seek(begin)
            assert file.read(100_000) == data[begin : begin + 100_000]
        file.seek(10)
        file.seek(5, io.SEEK_CUR)
        assert file.tell() == 15
        with pytest.raises((OSError, ValueError)):
            file.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    table = pa.table({"id": range(10_000)})
    with access.create(f"{root}/t") as file:
        parquet.write_table(table, file)
    with access.open(f"{root}/t") as file:
        assert parquet.read_table(file).equals(table)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records(root, compression):
    batch = pa.record_batch({"id": range(50_000), "s": [f"ä{n}" for n in range(50_000)]})
    path = f"{root}/f"
    assert records.write(path, [batch], compression=compression) == 50_000
    assert sum(part.num_rows for part in records.read(path, compression=compression)) == 50_000
    survey = records.verify(path, compression=compression)
    assert (survey["records"], survey["first_problem"]) == (50_000, "")
    assert records.infer_schema([path], compression=compression).names == ["id", "s"]
    if not compression:
        assert records.make_index(path) == 50_000
        parts = records.split(path, 1 << 20)
        assert len(parts) > 1
        numbers = [
            n
            for part in parts
            for part_batch in records.read(path, batch.schema, part=part)
            for n in part_batch["id"].to_pylist()
        ]
        assert numbers == list(range(50_000))


@pytest.fixture
def mounts(hadoop):
    """Empty directories by the mount of a viewfs that they are in."""
    made = {name: f"{uri}/{uuid.uuid4().hex}" for name, uri in hadoop.mounts.items()}
    for path in made.values():
        access, path = access_for(path)
        access.mkdirs(path)
    return made


@pytest.mark.parametrize(
    "source, target", [("mounted", "local"), ("local", "mounted"), ("faulty", "local")]
)
def test_a_viewfs_loses_nothing_where_it_cannot_rename(mounts, source, target):
    source, target = f"{mounts[source]}/from", f"{mounts[target]}/to"
    write_bytes(source, b"new")
    write_bytes(target, b"old")
    access, _ = access_for(source)
    with pytest.raises(OSError, match="one is on .* and the other on") as refused:
        access.rename(source, target)
    assert refused.value.errno == errno.EXDEV
    assert (read_bytes(source), read_bytes(target)) == (b"new", b"old")


def test_a_viewfs_renames_in_one_step(hadoop, mounts):
    # What renames by deleting the target first would have lost it here.
    source, target = f"{mounts['faulty']}/from", f"{mounts['faulty']}/to"
    write_bytes(source, b"new")
    write_bytes(target, b"old")
    access, _ = access_for(source)
    hadoop.faults.inject("rename")
    try:
        with pytest.raises(OSError, match="injected failure of rename"):
            access.rename(source, target)
    finally:
        hadoop.faults.clear()
    assert (read_bytes(source), read_bytes(target)) == (b"new", b"old")
    access.rename(source, target)
    assert read_bytes(target) == b"new" and access.status(source) is None


def test_a_viewfs_renames_between_mounts_of_one_file_system(mounts):
    source, target = f"{mounts['mounted']}/from", f"{mounts['other']}/to"
    write_bytes(source, b"new")
    write_bytes(target, b"old")
    access, _ = access_for(source)
    access.rename(source, target)
    assert read_bytes(target) == b"new" and access.status(source) is None
    with pytest.raises(FileNotFoundError, match="none"):
        access.rename(target, f"{mounts['other']}/none/to")
    with pytest.raises(OSError, match="root"):
        access.rename(target, "viewfs://tfos/")
    assert read_bytes(target) == b"new"


def test_checksums_of_local_files_follow_a_rename(mounts):
    source, target = f"{mounts['local']}/from", f"{mounts['local']}/to"
    write_bytes(source, b"new")
    write_bytes(target, b"old")
    access, _ = access_for(source)
    access.rename(source, target)
    assert read_bytes(target) == b"new"
    assert [status.path for status in access.list(mounts["local"])] == [target]


def test_a_directory_that_another_job_fills_or_deletes_meanwhile(monkeypatch, tmp_path):
    access, shared = access_for(tmp_path / "shared")
    rmdir = os.rmdir
    for before in (lambda: (tmp_path / "shared" / "job").mkdir(), lambda: rmdir(shared)):
        access.mkdirs(shared)

        def meanwhile(path, before=before):
            before()
            rmdir(path)

        with monkeypatch.context() as patched:
            patched.setattr(os, "rmdir", meanwhile)
            access.delete_if_empty(shared)
        access.delete(f"{shared}/job")
    access.delete_if_empty(shared)
    assert access.status(shared) is None


@pytest.mark.parametrize("what", ["unlink", "rmdir"])
def test_a_directory_is_deleted_though_another_job_deletes_in_it(monkeypatch, tmp_path, what):
    access, shared = access_for(tmp_path / "shared")
    for name in ("a", "b"):
        access.mkdirs(f"{shared}/{name}/below")
        for number in range(3):
            write_bytes(f"{shared}/{name}/{number}", b"")
    delete, faster = getattr(os, what), []

    def meanwhile(path, **options):
        if not faster:
            faster.append(path)
            delete(path, **options)
        delete(path, **options)

    monkeypatch.setattr(os, what, meanwhile)
    access.delete(shared)
    assert faster and access.status(shared) is None


def test_a_directory_is_made_though_another_job_deletes_one_above_it(monkeypatch, tmp_path):
    access, shared = access_for(tmp_path / "shared")
    mkdir, deleted = os.mkdir, []

    def meanwhile(path, *arguments):
        if path == f"{shared}/job" and not deleted:
            os.rmdir(shared)
            deleted.append(path)
        mkdir(path, *arguments)

    monkeypatch.setattr(os, "mkdir", meanwhile)
    access.mkdirs(f"{shared}/job")
    assert deleted and access.status(f"{shared}/job") is not None
    write_bytes(f"{shared}/file", b"")
    with pytest.raises(FileExistsError):
        access.mkdirs(f"{shared}/file")
    with pytest.raises(NotADirectoryError):
        access.mkdirs(f"{shared}/file/below")


@pytest.mark.parametrize("kind", ["hdfs", "faulty"])
def test_threads_share_an_open_file(empty_directory, kind):
    root = empty_directory(kind)
    data = random.Random(3).randbytes((3 << 20) + 17)
    write_bytes(f"{root}/f", data)
    file = hadoop_client.client().open(access_for(f"{root}/f")[1])

    def at_random_places(seed):
        places = random.Random(seed)
        for _ in range(40):
            begin = places.randrange(len(data) + 100)
            room = bytearray(places.choice((1, 5_000, 300_000)))
            found = file.read_into(begin, room)
            assert room[:found] == data[begin : begin + len(room)]

    def from_begin_to_end(_):
        room, position = bytearray(70_000), 0
        while found := file.read_into(position, room):
            assert room[:found] == data[position : position + len(room)]
            position += found
        assert position == len(data)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        runs = [
            threads.submit(run, seed)
            for seed in range(4)
            for run in (at_random_places, from_begin_to_end)
        ]
        for run in runs:
            run.result()


def test_directories_of_many_files(hadoop, empty_directory):
    access, root = access_for(empty_directory("hdfs"))
    for number in range(MANY_FILES):
        access.create(f"{root}/{number:05}").close()
    assert [status.path for status in access.list(root)] == [
        f"{root}/{n:05}" for n in range(MANY_FILES)
    ]


def test_schemes(monkeypatch):
    assert access_for("HDFS://Host:1/a//b/../c/")[1] == "hdfs://Host:1/a/c"
    assert access_for("viewfs:/a/./b")[1] == "viewfs:///a/b"
    assert access_for("hdfs://host")[1] == "hdfs://host/"
    assert native_path("hdfs://host/a%20b c") == "hdfs://host/a%20b c"
    for refused in (access_for, records.read):
        with pytest.raises(
            BadInputError, match=r"gs://; there are file, hdfs, viewfs, .*TFOS_HADOOP_SCHEMES"
        ):
            refused("gs://bucket/x")
    monkeypatch.setenv(hadoop_client.SCHEMES_VARIABLE, "gs://, s3a")
    assert hadoop_client.schemes() == ["hdfs", "viewfs", "gs", "s3a"]
    assert access_for("gs://bucket/x")[1] == "gs://bucket/x"


@pytest.mark.parametrize(
    "path, parent",
    [
        ("/a/b", "/a"),
        ("/a", "/"),
        ("/", "/"),
        ("hdfs:///a", "hdfs:///"),
        ("hdfs:///a/b", "hdfs:///a"),
        ("hdfs://h:1/a", "hdfs://h:1/"),
        ("viewfs://c/a/b/c", "viewfs://c/a/b"),
        ("hdfs:///", "hdfs:///"),
    ],
)
def test_the_directory_above_a_path(path, parent):
    assert parent_of(path) == parent
