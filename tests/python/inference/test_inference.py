"""SavedModels over record batches: what fits, what comes out, and what is said of the rest."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from tfos import inference
from tfos.errors import BadInputError
from tfos.inference import model as inference_model

BOUND_SECONDS = 60


def results(model, batch, *, batches=None, calls=1, **options):
    """The rows that come out, as dicts."""
    run = model.on(batch.schema, **options)
    return [row for out in run.run(batches or [batch], calls) for row in out.to_pylist()]


@pytest.fixture
def numbers(models):
    return np.load(models / "keras.npz")


@pytest.fixture
def other(models):
    return lambda signature: inference.Model(str(models / "others"), signature=signature)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_keras_model_gives_what_keras_gives(models, numbers, dtype):
    model = inference.Model(str(models / "keras"))
    x = numbers["x"].astype(dtype)
    batch = pa.record_batch({"x": list(x)})
    (name,), (output,) = model.inputs, model.outputs
    got = results(model, batch, input_mapping={"x": name}, output_mapping={output: "y"})
    rounding = 1e-2 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(
        [row["y"] for row in got], numbers["y"], rtol=rounding, atol=rounding
    )


@pytest.mark.parametrize("calls", [1, 3])
def test_rows_come_back_in_order_and_in_batches_of_the_size(other, calls):
    batch = pa.record_batch(
        {
            "x": pa.array(range(95), pa.float32()),
            "y": pa.array(range(95), pa.float64()),
            "id": [str(n) for n in range(95)],
        }
    )
    cuts = [0, 3, 3, 4, 40, 41, 90, 95]
    batches = [batch.slice(begin, end - begin) for begin, end in zip(cuts, cuts[1:])]
    got = results(other("two"), batch, batches=batches, batch_size=10, keep=True, calls=calls)
    assert [row["id"] for row in got] == [str(n) for n in range(95)]
    assert all(row["difference"] == 0 for row in got)
    assert [row["rows"] for row in got] == 90 * [10] + 5 * [5]


def test_calls_at_a_time_take_no_more_rows_than_they_need(other):
    batch = pa.record_batch(
        {"x": pa.array(range(10), pa.float32()), "y": pa.array(range(10), pa.float64())}
    )
    taken = []

    def batches():
        for number in range(100):
            taken.append(number)
            yield batch

    run = other("two").on(batch.schema, batch_size=10).run(batches(), calls=2)
    next(run)
    assert len(taken) == 3
    run.close()
    assert len(taken) == 3

    bad = pa.record_batch({"x": pa.array([None], pa.float32()), "y": pa.array([1.0])})
    run = other("two").on(batch.schema, batch_size=1).run([batch, bad, batch], calls=2)
    with pytest.raises(BadInputError, match="column x.*null.*row 10"):
        list(run)


@pytest.mark.parametrize("calls", [1, 2])
def test_large_results_are_made_by_batches_of_the_model_and_small_ones_together(other, calls):
    def rows_of_results(batch):
        run = other("varying").on(batch.schema, batch_size=2)
        return [found.num_rows for found in run.run([batch], calls=calls)]

    assert rows_of_results(pa.record_batch({"n": [300_000] * 9})) == [2, 2, 2, 2, 1]
    numbers = rows_of_results(pa.record_batch({"n": [1] * 100_001}))
    # How small results are is known when a first one is there.
    assert sum(numbers) == 100_001 and len(numbers) <= 3 + calls


def test_strings_several_outputs_and_their_types(models):
    model = inference.Model(str(models / "text"))
    assert model.inputs == {"pair": "int32[?, 2]", "word": "string[?]"}
    words = ["red", "blue", "ä" * 40, ""]
    batch = pa.record_batch({"word": words, "pair": pa.array([[1, 2], [300, 4], [5, 6], [0, 0]])})
    run = model.on(batch.schema, binary_outputs=["bytes"])
    types = {field.name: field.type for field in run.schema}
    assert types == {
        "upper": pa.string(),
        "index": pa.int64(),
        "half": pa.list_(pa.field("element", pa.float32())),
        "small": pa.int16(),
        "first_is_more": pa.bool_(),
        "bytes": pa.binary(),
        "outer": pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int32())))),
    }
    (out,) = run.run([batch])
    out.validate(full=True)
    assert out.schema.equals(run.schema)
    assert out.to_pylist()[1] == {
        "upper": "BLUE",
        "index": 2,
        "half": [150.0, 2.0],
        "small": 300 % 256,
        "first_is_more": True,
        "outer": [[90000, 1200], [1200, 16]],
        "bytes": b"blue\xff",
    }
    assert [row["upper"] for row in out.to_pylist()] == ["RED", "BLUE", "ä" * 40, ""]
    with pytest.raises(
        BadInputError, match="output bytes.*not UTF-8; declare the output as binary"
    ):
        results(model, batch)


def test_types_with_large_offsets(models):
    model = inference.Model(str(models / "text"))
    schema = {
        "word": pa.array(["a", "b"], pa.large_string()),
        "pair": pa.array([[1, 2]] * 2, pa.large_list(pa.int8())),
    }
    assert [
        row["upper"] for row in results(model, pa.record_batch(schema), binary_outputs=["bytes"])
    ] == ["A", "B"]


def test_ragged(other):
    batch = pa.record_batch({"words": pa.array([[1, 2], [], [3], [4, 5, 6]], pa.list_(pa.int32()))})
    model = other("ragged")
    values, splits = sorted(model.inputs)
    mapping = {"words": (values, splits)}
    assert results(model, batch, input_mapping=mapping) == [{"sum": n} for n in (3, 0, 3, 15)]
    pieces = [batch.slice(0, 1), batch.slice(1, 2), batch.slice(3)]
    assert results(model, batch, batches=pieces, input_mapping=mapping, batch_size=3) == [
        {"sum": n} for n in (3, 0, 3, 15)
    ]


def test_lists_of_strings(other):
    pairs = [[str(n), "\u00fc" * (30 * n)] for n in range(10)]
    expected = [{"joined": "-".join(pair), "pair": pair} for pair in pairs]
    batch = pa.record_batch({"pair": pairs})
    pieces = [batch.slice(0, 3), batch.slice(3, 1), batch.slice(4)]
    assert results(other("join"), batch, batches=pieces, batch_size=4) == expected
    binary = pa.record_batch({"pair": pa.array(pairs, pa.list_(pa.binary()))})
    assert results(other("join"), binary) == expected
    fixed = [{"joined": row["joined"]} for row in expected]
    assert results(other("fixed_join"), batch, batch_size=3) == fixed
    uneven = pa.record_batch({"pair": [["a", "b"], ["c"]]})
    with pytest.raises(BadInputError, match="column pair .*row 0 has 2 values, row 1 has 1"):
        results(other("join"), uneven)
    with pytest.raises(BadInputError, match=r"column pair .*a row has \[1\] values"):
        results(other("join"), uneven.slice(1))
    with pytest.raises(BadInputError, match="column pair has a null in row 1"):
        results(other("join"), pa.record_batch({"pair": [["a", "b"], ["c", None]]}))


def test_ragged_lists_of_strings(other):
    batch = pa.record_batch({"words": [["a", "b"], [], ["c"], ["d", "", "f"]]})
    model = other("ragged_join")
    values, splits = sorted(model.inputs)
    expected = [{"joined": text} for text in ("a-b", "", "c", "d--f")]
    pieces = [batch.slice(0, 1), batch.slice(1, 2), batch.slice(3)]
    for batches in [batch], pieces:
        assert (
            results(
                model,
                batch,
                batches=batches,
                input_mapping={"words": (values, splits)},
                batch_size=3,
            )
            == expected
        )


def test_a_fixed_number_of_rows_is_filled_up(other):
    batch = pa.record_batch({"x": [[n, 1.0] for n in range(10)]})
    assert results(other("fixed"), batch, batch_size=3) == [
        {"sum": n + 1, "rows": 4} for n in range(10)
    ]


def test_images_as_binary_and_as_flat_lists(other):
    pixels = [bytes(range(n, n + 6)) for n in range(3)]
    expected = [{"mean": n + 2.5, "top": [n, n + 1, n + 2]} for n in range(3)]
    assert results(other("image"), pa.record_batch({"image": pixels})) == expected
    flat = pa.record_batch({"image": [list(image) for image in pixels]})
    assert results(other("image"), flat) == expected
    with pytest.raises(BadInputError, match="column image .*row 0 has 6 bytes, row 1 has 5"):
        results(other("image"), pa.record_batch({"image": [bytes(6), bytes(5)]}))


def test_outputs_whose_size_varies(other):
    batch = pa.record_batch({"n": [1, 2, 3, 1]})
    assert results(other("varying"), batch, batch_size=2) == [
        {"range": [1, 1]},
        {"range": [2, 2]},
        {"range": [3, 3, 3]},
        {"range": [1, 1, 1]},
    ]


def test_tensorflow_1(models):
    model = inference.Model(str(models / "tf1"), "serve,old", "predict")
    assert results(model, pa.record_batch({"x": [[1.0, 1.0], [0.0, 2.0]]})) == [
        {"y": [5.0]},
        {"y": [6.0]},
    ]
    with pytest.raises(BadInputError, match="no graph with the tags 'serve'; it has 'serve,old'"):
        inference.Model(str(models / "tf1"))


def test_ops_of_a_library(models):
    program = """
import sys, pyarrow as pa
from tfos import inference
from tfos.errors import TfosError
batch = pa.record_batch({"n": [1, 2]})
def run(libraries):
    model = inference.Model(sys.argv[1], op_libraries=libraries)
    return [out.to_pylist() for out in model.on(batch.schema).run([batch])]
try:
    run(())
    sys.exit("it ran without its op")
except TfosError as error:
    assert "TestOneMore" in str(error) and "--op-library" in str(error), error
assert run((sys.argv[2],)) == [[{"more": 2}, {"more": 3}]]
"""
    command = [sys.executable, "-c", program, str(models / "custom"), str(models / "one_more.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_columns_that_do_not_fit_are_all_listed(models):
    model = inference.Model(str(models / "text"))
    with pytest.raises(BadInputError) as refused:
        model.on(
            pa.schema({"word": pa.int32(), "n": pa.list_(pa.float32())}),
            {"word": "word", "n": "pair"},
            {"upper": "a", "lower": "b"},
        )
    text = str(refused.value)
    assert str(models / "text") in text and "signature 'serving_default'" in text
    assert "input word: expected string[?], found column 'word' of int32" in text
    assert "input pair: expected int32[?, 2], found column 'n' of list of float32" in text
    assert "output lower: the signature has no such output" in text
    assert "The columns: word int32, n list of float32" in text
    with pytest.raises(BadInputError, match="no signature 'x'; it has 'other', 'serving_default'"):
        inference.Model(str(models / "text"), signature="x")
    with pytest.raises(BadInputError, match="column word would appear twice"):
        model.on(
            pa.schema({"word": pa.string(), "pair": pa.list_(pa.int32())}),
            output_mapping={"upper": "word"},
            keep=True,
        )


@pytest.mark.parametrize(
    "rows, message",
    [
        ({"word": ["a", None], "pair": [[1, 2]] * 2}, "column word has a null in row 5"),
        ({"word": ["a"], "pair": [[1, None]]}, "column pair has a null in row 4"),
        ({"word": ["a", "b"], "pair": [[1, 2], [3]]}, r"row 4 has 2 values, row 5 has 1"),
        ({"word": ["a", "b"], "pair": [[1, 2, 3]] * 2}, r"int32\[\?, 2\]: a row has \[3\] values"),
        (
            {"word": ["a", "b"], "pair": [[1, 2], [3, 1 << 31]]},
            "a number of row 5 is beyond the range of int32",
        ),
    ],
)
def test_rows_that_do_not_fit_are_named(models, rows, message):
    model = inference.Model(str(models / "text"))
    good = pa.record_batch(
        {"word": ["x"] * 4, "pair": pa.array([[1, 2]] * 4, pa.list_(pa.int64()))}
    )
    bad = pa.record_batch(
        [pa.array(rows["word"]), pa.array(rows["pair"], pa.list_(pa.int64()))],
        names=["word", "pair"],
    )
    run = model.on(good.schema, binary_outputs=["bytes"], batch_size=4).run([good, bad])
    assert next(run).num_rows == 4
    with pytest.raises(BadInputError, match=message):
        next(run)


@pytest.mark.parametrize(
    "column, values, message",
    [
        ("pair", pa.array([[1.0, 2.0]]), "list of float64 for input pair, .*not become int32"),
        ("pair", pa.array([["a", "b"]]), "list of string for input pair, .*it has no strings"),
        ("pair", pa.array(["ab"]), "column pair of string for input pair, .*it has no strings"),
        ("pair", pa.array([1]), "column pair of int64 for input pair, .*a row has one number"),
        ("word", pa.array([7]), "column word of int64 for input word, .*does not become string"),
    ],
)
def test_batches_of_other_types_than_planned_are_refused(models, column, values, message):
    model = inference.Model(str(models / "text"))
    good = {"word": pa.array(["x"]), "pair": pa.array([[1, 2]], pa.list_(pa.int64()))}
    run = model.on(pa.record_batch(good).schema, binary_outputs=["bytes"], batch_size=1)
    narrow = good | {"pair": pa.array([[1, 2]], pa.list_(pa.int8()))}
    (row,) = next(run.run([pa.record_batch(narrow)])).to_pylist()
    assert row["upper"] == "X" and row["half"] == [0.5, 1.0]
    with pytest.raises(BadInputError, match=message):
        list(run.run([pa.record_batch(good), pa.record_batch(good | {column: values})]))


def test_bytes_and_numbers_do_not_mix_in_a_batch_of_the_model(other):
    binary = pa.record_batch({"image": [bytes(range(6))]})
    numbers = pa.record_batch({"image": [list(range(6))]})
    for batches, found in (
        ([binary, numbers], "row 0 has bytes, row 1 has numbers"),
        ([numbers, binary], "row 0 has numbers, row 1 has bytes"),
    ):
        with pytest.raises(BadInputError, match=found):
            results(other("image"), batches[0], batches=batches)
        assert len(results(other("image"), batches[0], batches=batches, batch_size=1)) == 2


def test_a_model_that_mixes_rows_is_found_out(other):
    with pytest.raises(BadInputError, match=r"output one .*the shape \[1\] for 3 rows"):
        results(other("bad"), pa.record_batch({"x": pa.array([1, 2, 3], pa.float32())}))


def test_what_is_no_saved_model(models, tmp_path):
    with pytest.raises(BadInputError, match="^no such directory: .*none$"):
        inference.Model(str(tmp_path / "none"))
    with pytest.raises(BadInputError, match=f"{models / 'keras'}.* would be one"):
        inference.Model(str(models))
    (tmp_path / "saved_model.pb").write_bytes(b"nothing of the kind")
    with pytest.raises(BadInputError, match="not a SavedModel"):
        inference.Model(str(tmp_path))


def test_a_session_is_kept_until_the_model_changes(models, tmp_path, monkeypatch):
    loaded = []
    monkeypatch.setattr(
        inference_model,
        "_load",
        lambda model, load=inference_model._load: loaded.append(model) or load(model),
    )
    where = tmp_path / "model"
    batch = pa.record_batch({"x": pa.array([[1.0, 1.0]], pa.list_(pa.float32()))})

    def run():
        model = pickle.loads(pickle.dumps(inference.Model(str(where), "serve,old", "predict")))
        return results(model, batch)

    shutil.copytree(models / "tf1", where)
    assert run() == run() == [{"y": [5.0]}]
    assert len(loaded) == 1
    stale = inference.Model(str(where), "serve,old", "predict")
    shutil.rmtree(where)
    shutil.copytree(models / "text", where)
    inference_model._sessions.clear()
    with pytest.raises(BadInputError, match="is not the model that was checked"):
        results(stale, batch)


def test_a_model_is_loaded_again_when_its_assets_change(models, tmp_path):
    """The graph and the variables of models that differ in a vocabulary are the same."""
    where = shutil.copytree(models / "text", tmp_path / "model")
    batch = pa.record_batch({"word": ["red", "green", "blue"], "pair": [[1, 2]] * 3})

    def run():
        model = inference.Model(str(where))
        rows = results(model, batch, output_mapping={"index": "index"})
        return model.stamp, [row["index"] for row in rows]

    stamp, found = run()
    assert found == [0, 1, 2] and run() == (stamp, found)
    (where / "assets" / "vocabulary.txt").write_text("blue\ngreen\nred\n")
    changed, found = run()
    assert found == [2, 1, 0] and changed != stamp


def test_a_model_is_another_when_an_asset_has_another_name_or_place(models, tmp_path):
    where = shutil.copytree(models / "text", tmp_path / "model")
    assets = where / "assets"
    (assets / "below").mkdir()
    (assets / "below" / "ab").write_text("c")
    stamps = [inference.Model(str(where)).stamp]
    for old, new, content in [
        ("below/ab", "below/a", "bc"),
        ("below/a", "a", "bc"),
        ("a", "_a", "bc"),
        ("_a", "_a", "bd"),
    ]:
        (assets / old).unlink()
        (assets / new).write_text(content)
        stamps.append(inference.Model(str(where)).stamp)
    assert len(set(stamps)) == len(stamps)


def test_a_model_that_is_being_loaded_holds_up_no_other(models, other, monkeypatch):
    began, go = threading.Event(), threading.Event()

    def load_when_told(model, load=inference_model._load):
        began.set()
        assert go.wait(BOUND_SECONDS)
        return load(model)

    inference_model._sessions.clear()
    two = pa.record_batch({"x": pa.array([3], pa.float32()), "y": pa.array([1], pa.float64())})
    assert len(results(other("two"), two)) == 1
    monkeypatch.setattr(inference_model, "_load", load_when_told)
    slow = inference.Model(str(models / "tf1"), "serve,old", "predict")
    batch = pa.record_batch({"x": pa.array([[1.0, 1.0]], pa.list_(pa.float32()))})
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(results, slow, batch)
        assert began.wait(BOUND_SECONDS)
        assert len(results(other("two"), two)) == 1
        go.set()
        assert answer.result(BOUND_SECONDS) == [{"y": [5.0]}]


def test_tensorflow_may_be_imported_afterwards(models):
    program = """
import sys, pyarrow as pa
from tfos import inference
model = inference.Model(sys.argv[1], "serve,old", "predict")
batch = pa.record_batch({"x": [[1.0, 1.0]]})
(out,) = model.on(batch.schema).run([batch])
assert "tensorflow" not in sys.modules
import tensorflow as tf
assert tf.reduce_sum([1, 2]).numpy() == 3
(again,) = model.on(batch.schema).run([batch])
assert out.to_pylist() == again.to_pylist() == [{"y": [5.0]}]
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(models / "tf1")],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_outputs_of_one_element_are_plain_columns_if_asked(models):
    model = inference.Model(str(models / "tf1"), "serve,old", "predict")
    batch = pa.record_batch({"x": [[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]})
    assert results(model, batch) == [{"y": [8.0]}, {"y": [3.0]}, {"y": [2.0]}]
    for options in ({}, {"output_mapping": {"y": "score"}}, {"keep": True, "batch_size": 2}):
        run = pickle.loads(pickle.dumps(model.on(batch.schema, plain=True, **options)))
        name = options.get("output_mapping", {}).get("y", "y")
        assert run.schema.field(name).type == pa.float32()
        batches = [batch.slice(0, 1), batch.slice(1)]
        found = [row[name] for out in run.run(batches) for row in out.to_pylist()]
        assert found == [8.0, 3.0, 2.0]


def test_outputs_of_more_elements_stay_lists(models):
    model = inference.Model(str(models / "text"))
    schema = pa.schema([("word", pa.string()), ("pair", pa.list_(pa.int32()))])
    assert model.on(schema, plain=True).output_schema == model.on(schema).output_schema
