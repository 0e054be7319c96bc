"""What TensorFlow does with files: on this host's and, through tfos, on a real HDFS, through a viewfs
mount of it, and on a file system that reads a few bytes at a time."""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import random

import pytest
import tensorflow as tf

gfile = tf.io.gfile


@pytest.fixture(params=["local", "hdfs", "viewfs", "faulty"])
def root(request, empty_directory):
    """An empty directory of the file system."""
    import tfos.tensorflow

    path = empty_directory(request.param)
    tfos.tensorflow.register_schemes()
    return path


def write(path, data):
    with gfile.GFile(path, "wb") as file:
        file.write(data)


def read(path):
    with gfile.GFile(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, 256 << 10, (3 << 20) + 17])
def test_what_is_written_is_read(root, size):
    data = random.Random(size).randbytes(size)
    write(f"{root}/f", data)
    assert read(f"{root}/f") == data
    assert gfile.stat(f"{root}/f").length == size
    write(f"{root}/f", b"replaced")
    assert read(f"{root}/f") == b"replaced"


def test_text_is_read_by_lines_and_from_where_one_seeks(root):
    with gfile.GFile(f"{root}/f", "w") as file:
        file.write("one\n")
        file.write("två\n")
    with gfile.GFile(f"{root}/f") as file:
        assert file.readlines() == ["one\n", "två\n"]
        file.seek(4)
        assert file.readline() == "två\n"
        assert file.tell() == 9


def test_appending_continues_a_file_or_begins_one(root):
    for part in ("one ", "two"):
        with gfile.GFile(f"{root}/f", "a") as file:
            file.write(part)
    assert read(f"{root}/f") == b"one two"


def test_what_was_flushed_is_visible(root):
    with gfile.GFile(f"{root}/f", "wb") as file:
        file.write(b"first")
        file.flush()
        assert read(f"{root}/f") == b"first"
        file.write(b" second")
    assert read(f"{root}/f") == b"first second"


def test_an_event_file_grows_under_who_reads_it(root):
    path = f"{root}/events"
    with tf.io.TFRecordWriter(path) as writer:

        def write(*records):
            for record in records:
                writer.write(record)
            writer.flush()

        write(b"one", b"two" * 50_000)
        # TensorBoard keeps one of these for each file, and asks it again.
        reader = tf.compat.v1.io.tf_record_iterator(path)
        assert list(reader) == [b"one", b"two" * 50_000]
        assert list(reader) == []
        write(b"three")
        assert list(reader) == [b"three"]
        write(b"x" * (3 << 20), b"four")
        assert list(reader) == [b"x" * (3 << 20), b"four"]


@pytest.mark.parametrize("name", ["with space", "ünï-日本", "a%20b", "a+b=c", "emoji-\U0001f600"])
def test_names_stay_as_they_are(root, name):
    write(f"{root}/{name}", b"x")
    assert gfile.listdir(root) == [name]
    assert gfile.glob(f"{root}/*") == [f"{root}/{name}"]
    assert read(f"{root}/{name}") == b"x"


def test_directories(root):
    gfile.makedirs(f"{root}/a/b")
    gfile.makedirs(f"{root}/a/b")
    write(f"{root}/a/b/f.txt", b"x")
    write(f"{root}/a/g.csv", b"x")
    assert gfile.isdir(f"{root}/a") and not gfile.isdir(f"{root}/a/g.csv")
    assert gfile.stat(f"{root}/a").is_directory
    assert sorted(name.rstrip("/") for name in gfile.listdir(f"{root}/a")) == ["b", "g.csv"]
    assert gfile.glob(f"{root}/*/*.csv") == [f"{root}/a/g.csv"]
    assert gfile.glob(f"{root}/a/?/[a-f].txt") == [f"{root}/a/b/f.txt"]
    assert [(path, folders, files) for path, folders, files in gfile.walk(f"{root}/a")] == [
        (f"{root}/a", ["b"], ["g.csv"]),
        (f"{root}/a/b", [], ["f.txt"]),
    ]
    gfile.rmtree(f"{root}/a")
    assert not gfile.exists(f"{root}/a")


def test_renaming_and_copying(root):
    write(f"{root}/a", b"a")
    write(f"{root}/b", b"b")
    with pytest.raises(tf.errors.AlreadyExistsError):
        gfile.rename(f"{root}/a", f"{root}/b")
    gfile.rename(f"{root}/a", f"{root}/b", overwrite=True)
    assert gfile.listdir(root) == ["b"]
    gfile.copy(f"{root}/b", f"{root}/c")
    assert read(f"{root}/b") == read(f"{root}/c") == b"a"
    gfile.makedirs(f"{root}/d")
    gfile.rename(f"{root}/d", f"{root}/e")
    assert gfile.isdir(f"{root}/e")


def test_copying_to_and_from_this_host(root, tmp_path):
    data = random.Random(1).randbytes(1 << 20)
    (tmp_path / "here").write_bytes(data)
    gfile.copy(str(tmp_path / "here"), f"{root}/there")
    gfile.copy(f"{root}/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda root: read(f"{root}/none"), tf.errors.NotFoundError),
        (lambda root: gfile.remove(f"{root}/none"), tf.errors.NotFoundError),
        (lambda root: gfile.stat(f"{root}/none"), tf.errors.NotFoundError),
        (lambda root: gfile.listdir(f"{root}/none"), tf.errors.NotFoundError),
        (lambda root: gfile.rename(f"{root}/none", f"{root}/x"), tf.errors.NotFoundError),
        (lambda root: gfile.mkdir(f"{root}/none/x"), tf.errors.NotFoundError),
        (lambda root: gfile.remove(f"{root}/full"), tf.errors.FailedPreconditionError),
        (lambda root: write(f"{root}/full", b"x"), tf.errors.OpError),
        (lambda root: gfile.makedirs(f"{root}/full/f/x"), tf.errors.OpError),
    ],
)
def test_failures_are_of_tensorflows_kinds(root, action, error):
    gfile.makedirs(f"{root}/full")
    write(f"{root}/full/f", b"x")
    with pytest.raises(error, match=r"none|full"):
        action(root)


def test_many_threads_read_one_file(root):
    data = random.Random(2).randbytes(4 << 20)
    write(f"{root}/f", data)

    def check(seed):
        places = random.Random(seed)
        with gfile.GFile(f"{root}/f", "rb") as file:
            for _ in range(20):
                begin = places.randrange(len(data))
                file.seek(begin)
                assert file.read(10_000) == data[begin : begin + 10_000]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(check, range(8)))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records(root, compression):
    records = [os.urandom(n % 700) for n in range(2000)]
    with tf.io.TFRecordWriter(f"{root}/r", compression) as writer:
        for record in records:
            writer.write(record)
    dataset = tf.data.TFRecordDataset(f"{root}/r", compression)
    assert list(dataset.as_numpy_iterator()) == records


def test_datasets_of_many_files(root):
    for number in range(5):
        write(f"{root}/{number}.txt", b"".join(b"%d-%d\n" % (number, i) for i in range(100)))
    files = tf.data.Dataset.list_files(f"{root}/*.txt", shuffle=False)
    lines = files.interleave(tf.data.TextLineDataset, cycle_length=5, num_parallel_calls=5)
    assert sorted(lines.as_numpy_iterator()) == sorted(
        b"%d-%d" % (number, i) for number in range(5) for i in range(100)
    )


def test_checkpoints(root):
    variable = tf.Variable(tf.random.normal([300, 300]))
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=variable), f"{root}/checkpoints", max_to_keep=2
    )
    for _ in range(3):
        manager.save()
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
    assert not gfile.exists(f"{root}/checkpoints/ckpt-1.index")
    restored = tf.Variable(tf.zeros([300, 300]))
    latest = tf.train.latest_checkpoint(f"{root}/checkpoints")
    tf.train.Checkpoint(v=restored).restore(latest).assert_consumed()
    assert (restored.numpy() == variable.numpy()).all()


def test_models(root):
    import numpy as np

    import keras

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    rows = np.ones((2, 4), "float32")
    expected = model(rows).numpy()
    model.save(f"{root}/model.keras")
    assert np.allclose(keras.models.load_model(f"{root}/model.keras")(rows), expected)
    model.save_weights(f"{root}/model.weights.h5")
    other = keras.models.clone_model(model)
    other.load_weights(f"{root}/model.weights.h5")
    assert np.allclose(other(rows), expected)
    model.export(f"{root}/exported", verbose=False)
    assert np.allclose(tf.saved_model.load(f"{root}/exported").serve(rows), expected)
    module = tf.Module()
    module.v = tf.Variable(3.0)
    tf.saved_model.save(module, f"{root}/module")
    assert tf.saved_model.load(f"{root}/module").v.numpy() == 3.0


def test_summaries(root):
    with tf.summary.create_file_writer(f"{root}/logs").as_default():
        tf.summary.scalar("loss", 0.5, step=1)
        tf.summary.flush()
        (path,) = gfile.glob(f"{root}/logs/events*")
        assert len(list(tf.data.TFRecordDataset(path).as_numpy_iterator())) == 2


def test_a_plugin_of_another_version_is_refused():
    import tfos

    library = ctypes.CDLL(os.path.join(os.path.dirname(tfos.__file__), "_hadoop_files.so"))
    library.tfos_hadoop_configure.restype = ctypes.c_char_p
    table = (ctypes.c_uint32 * 64)(99)
    assert b"another version" in library.tfos_hadoop_configure(b"hdfs", table)
