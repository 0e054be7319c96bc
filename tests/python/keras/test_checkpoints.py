"""The files of checkpoints: whole or not there, whatever happens to their writer or to them."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import uuid

import ml_dtypes
import numpy as np
import pytest

import tfos
from support.files.checkpoints import check_each_kill, check_kill, checked, state_of
from support.files.remote_files import names_in, read_bytes, write_bytes
from support.spark.fake import FakeSparkContext
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.files.local import LocalFiles
from tfos.keras.checkpoint import archive
from tfos.keras.checkpoint.directory import CheckpointDirectory


def written(directory, *numbers):
    files = CheckpointDirectory(directory)
    return [files.write(state_of(number)).path for number in numbers]


@pytest.mark.parametrize("kind", ["local", "hdfs", "viewfs", "faulty", "s3a"])
def test_what_is_written_is_read(kind, empty_directory, request):
    if kind == "faulty":
        request.getfixturevalue("faulty")
    directory = f"{empty_directory(kind)}/run"
    assert tfos.last_checkpoint(directory) is None
    files = CheckpointDirectory(directory)
    files.try_to_write()
    assert names_in(directory) == []
    for number in range(4):
        files.write(state_of(number))
        files.prune(2)
        assert checked(directory).epoch == number
    assert names_in(directory) == ["checkpoint-00000003", "checkpoint-00000004"]
    found = tfos.last_checkpoint(directory)
    assert found.path.endswith("/run/checkpoint-00000004")
    assert (found.epoch, found.step) == (3, 30)


def test_numpy_reads_the_archive(tmp_path):
    [folder] = written(tmp_path, 7)
    [file] = pathlib.Path(folder).glob("*.npz")
    with np.load(file) as archive:
        assert archive["00000 dense/kernel"].tolist() == [[7, 7]] * 3
        assert archive["00001 dense/bias"].view(ml_dtypes.bfloat16).tolist() == [7, 7]


@pytest.mark.parametrize("lines", [[], [[2, 0, 16, 2**32 - 1, 16, 0, 9]]])
def test_the_rows_that_were_trained_on_are_read_as_they_were_written(tmp_path, lines):
    files = CheckpointDirectory(tmp_path)
    files.write(state_of(1))
    assert files.trained(files.newest()) is None, "not known"
    numbers = np.array(lines, np.uint64).reshape(-1, 7)
    files.write(state_of(2)._replace(trained=("input", numbers.tobytes())))
    queue, found = files.trained(files.newest())
    assert (queue, found.dtype, found.tolist()) == ("input", np.uint64, lines)
    checked(tmp_path)


def test_what_callbacks_remember_is_in_members_of_its_own(tmp_path):
    """The best weights of EarlyStopping are as large as the model's."""
    [folder] = written(tmp_path, 7)
    [file] = pathlib.Path(folder).glob("*.npz")
    with np.load(file) as archive:
        assert archive["callbacks/00000"].tolist() == [[7, 7]] * 3
        assert archive["callbacks/00001"].view(ml_dtypes.bfloat16).tolist() == [7, 7]
        state = json.loads(archive["callbacks.json"])
    kernel = {"array of NumPy": "callbacks/00000.npy"}
    bias = {"array of NumPy": "callbacks/00001.npy", "type": "bfloat16"}
    best = {"wait": 7, "best": float("inf"), "best_weights": [kernel, bias]}
    assert state == {"EarlyStopping": [best]}
    checked(tmp_path)


def test_each_flipped_bit_is_found(tmp_path):
    before, newest = written(tmp_path, 1, 2)
    flipped = 0
    for file in sorted(pathlib.Path(newest).iterdir()):
        good = file.read_bytes()
        for place in range(len(good)):
            bit = 1 << place % 8
            file.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
            with pytest.warns(RuntimeWarning, match=f"{newest} is damaged"):
                assert tfos.last_checkpoint(tmp_path).path == before
            flipped += 1
        file.write_bytes(good)
    assert flipped > 1000
    assert checked(tmp_path).path == newest


@pytest.mark.parametrize("kind", ["local", "hdfs", "s3a"])
def test_a_file_that_was_cut_or_is_gone_is_found(kind, empty_directory):
    directory = empty_directory(kind)
    before, newest = written(directory, 1, 2)
    access, _ = access_for(directory)
    manifest, file = names_in(newest)
    for name in (manifest, file):
        good = read_bytes(f"{newest}/{name}")
        for bad in (good[:-1], good + b"\n", b""):
            write_bytes(f"{newest}/{name}", bad)
            with pytest.warns(RuntimeWarning, match=f"{newest} is damaged"):
                assert checked(directory).path == before
        write_bytes(f"{newest}/{name}", good)
    assert checked(directory).path == newest
    access.delete(f"{newest}/{file}")
    with pytest.warns(RuntimeWarning, match=f"{newest} is damaged: .*{file}"):
        assert tfos.last_checkpoint(directory).path == before


def test_what_is_damaged_counts_as_none_and_goes(tmp_path):
    folders = written(tmp_path, 1, 2, 3)
    for folder in folders[1:]:
        pathlib.Path(folder, "manifest.json").write_text("{}")
    files = CheckpointDirectory(tmp_path)
    with pytest.warns(RuntimeWarning) as caught:
        assert files.newest().checkpoint.path == folders[0]
    assert len(caught) == 2
    files.write(state_of(4))
    files.prune(2)
    assert names_in(tmp_path) == ["checkpoint-00000001", "checkpoint-00000004"]


@pytest.mark.parametrize("part", ["manifest.json", "state-"])
@pytest.mark.parametrize(
    "error", [PermissionError, ConnectionResetError, OSError(errno.EMFILE, "many")]
)
def test_what_cannot_be_read_is_not_damaged(tmp_path, monkeypatch, part, error):
    """Else training goes on from an older one, and the newest is deleted."""
    _, newest = written(tmp_path, 1, 2)
    files = CheckpointDirectory(tmp_path)

    def fails(self, path):
        if f"{newest}/{part}" in path:
            raise error
        return open(path, "rb")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "open", fails)
        with pytest.raises(OSError) as raised:
            files.newest()
    assert not isinstance(raised.value, FileNotFoundError)
    files.write(state_of(3))
    files.prune(2)
    assert names_in(tmp_path) == ["checkpoint-00000002", "checkpoint-00000003"]


def test_a_failure_of_hdfs_is_no_damage(faulty):
    _, newest = written(faulty.uri, 1, 2)
    faulty.inject("read")
    with pytest.raises(OSError, match="injected failure of read"):
        tfos.last_checkpoint(faulty.uri)
    assert tfos.last_checkpoint(faulty.uri).path == newest


def test_one_that_cannot_be_deleted_keeps_no_other(tmp_path, monkeypatch):
    folders = written(tmp_path, *range(5))
    plain = LocalFiles.delete

    def fails(self, path):
        if folders[1] in path:
            raise PermissionError(path)
        plain(self, path)

    monkeypatch.setattr(LocalFiles, "delete", fails)
    with pytest.raises(PermissionError, match=folders[1]):
        CheckpointDirectory(tmp_path).prune(1)
    assert names_in(tmp_path) == ["checkpoint-00000002", "checkpoint-00000005"]


def test_the_commit_is_on_the_disk_before_older_ones_go(tmp_path, monkeypatch):
    done = []

    def noting(what, plain):
        def function(*arguments, **options):
            first = arguments[0]
            done.append(
                (what, os.readlink(f"/proc/self/fd/{first}") if what == "sync" else str(first))
            )
            return plain(*arguments, **options)

        return function

    written(tmp_path, 1)
    for what, name in (("sync", "fsync"), ("rename", "replace"), ("delete", "unlink")):
        monkeypatch.setattr(os, name, noting(what, getattr(os, name)))
    files = CheckpointDirectory(tmp_path)
    folder = files.write(state_of(2)).path
    files.prune(1)
    kinds = [what for what, _ in done]
    committed, deleted = kinds.index("rename"), kinds.index("delete")
    assert kinds[:committed] == ["sync", "sync"], "the files"
    assert done[committed + 1 : deleted] == [("sync", folder), ("sync", str(tmp_path))]


def test_a_disk_that_cannot_sync_folders_is_good_enough(tmp_path, monkeypatch):
    plain = os.fsync

    def fsync(descriptor, number=errno.EINVAL):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    written(tmp_path, 1)
    assert checked(tmp_path).epoch == 1
    monkeypatch.setattr(os, "fsync", lambda descriptor: fsync(descriptor, errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        written(tmp_path, 2)


def test_the_driver_looks_where_nodes_write(hadoop, tmp_path, monkeypatch):
    import pyspark

    name = f"/{uuid.uuid4().hex}/run"
    [there] = written(f"{hadoop.hdfs}{name}", 1)

    def with_default(uri):
        context = FakeSparkContext(hadoop_conf={"fs.defaultFS": uri})
        monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)

    with_default(hadoop.hdfs)
    assert tfos.last_checkpoint(name).path == there
    assert tfos.last_checkpoint(tmp_path) is None
    [here] = written(tmp_path / "run", 2)
    assert tfos.last_checkpoint(f"file://{tmp_path}/run").path == here
    with_default("file:///")
    assert tfos.last_checkpoint(tmp_path / "run").path == here
    monkeypatch.chdir(tmp_path)
    assert tfos.last_checkpoint("run").path == here


def test_where_all_are_damaged_training_does_not_begin_anew(tmp_path):
    for folder in written(tmp_path, 1, 2):
        pathlib.Path(folder, "manifest.json").write_text("{}")
    with pytest.warns(RuntimeWarning):
        with pytest.raises(BadInputError, match=r"checkpoint-00000001 is damaged.*Delete them"):
            tfos.last_checkpoint(tmp_path)


def test_a_later_format_is_no_damage(tmp_path):
    [folder] = written(tmp_path, 1)
    manifest = pathlib.Path(folder, "manifest.json")
    content = archive.decoded(manifest.read_bytes(), "manifest.json")
    manifest.write_bytes(archive.encoded({**content, "format": 3}))
    with pytest.raises(BadInputError, match="format 3"):
        tfos.last_checkpoint(tmp_path)


@pytest.mark.parametrize("operation", ["create", "write", "close", "rename"])
def test_a_write_that_fails_leaves_the_one_before(faulty, operation):
    files = CheckpointDirectory(faulty.uri)
    files.write(state_of(1))
    faulty.inject(operation)
    with pytest.raises(OSError, match=f"injected failure of {operation}"):
        files.write(state_of(2))
    assert checked(faulty.uri).epoch == 1
    files.write(state_of(3))
    files.prune(1)
    assert checked(faulty.uri).epoch == 3
    [folder] = names_in(faulty.uri)
    assert len(names_in(f"{faulty.uri}/{folder}")) == 2


def test_a_writer_that_is_killed_before_anything_it_does_leaves_a_whole_one(tmp_path):
    # A file of 1500 bytes in pieces of 64, and what is done with it.
    assert check_each_kill(tmp_path, "each") > 40


@pytest.mark.parametrize("seed", range(6))
def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_one(tmp_path, seed):
    check_kill(tmp_path, seed, most=20, spins=100_000)
