"""What ``tfos.ml.Estimator`` selects, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tfos
from support.spark.fake import FakeSparkContext, fake_session
from tfos import ml
from tfos.errors import BadInputError
from tfos.ml import estimator as estimator_of


class Started(Exception):
    """The cluster would start now."""


def test_columns_with_dots_are_columns(monkeypatch, tmp_path):
    selected = []
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: selected.extend(names))

    def run(*arguments, **keywords):
        raise Started

    monkeypatch.setattr(tfos, "run", run)
    estimator = ml.Estimator(
        build=print,
        modelDir=str(tmp_path),
        inputMapping={"a.b": "x", "c`d": "y", "e": "z"},
        labelCol="label.of it",
    )
    with pytest.raises(Started):
        estimator._fit(frame)
    assert selected == ["`a.b`", "`c``d`", "`e`", "`label.of it`"]


@pytest.mark.parametrize("pair", [("x", "x_1"), ["x", "x_1"]], ids=["made", "loaded"])
def test_a_pair_beside_another_column_is_refused_before_anything_runs(tmp_path, pair):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    estimator = ml.Estimator(
        build=print, modelDir=str(tmp_path), inputMapping={"words": pair, "n": "n"}
    )
    with pytest.raises(BadInputError, match="pairs of inputs for the column words"):
        estimator._fit(SimpleNamespace(sparkSession=session))


def test_a_model_dir_that_cannot_be_reached_fails_before_training(monkeypatch):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: frame)

    def run(*arguments, **keywords):
        raise Started

    monkeypatch.setattr(tfos, "run", run)
    estimator = ml.Estimator(
        build=print, modelDir="nowhere://bucket/models", inputMapping={"x": "x"}
    )
    with pytest.raises(BadInputError, match="no file system is configured for nowhere://"):
        estimator._fit(frame)


def test_callbacks_go_with_a_builder_alone():
    with pytest.raises(BadInputError, match="callbacks= goes with build="):
        ml.Estimator(train=print, callbacks=print)


@pytest.mark.parametrize("nodes", [(2, 4), [2, 4]], ids=["made", "loaded"])
def test_nodes_may_be_lost_down_to_the_least(monkeypatch, tmp_path, nodes):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: frame)
    asked = {}

    def run(*arguments, **keywords):
        asked.update(keywords)
        raise Started

    monkeypatch.setattr(tfos, "run", run)
    estimator = ml.Estimator(
        build=print, modelDir=str(tmp_path), inputMapping={"x": "x"}, nodes=nodes
    )
    with pytest.raises(Started):
        estimator._fit(frame)
    assert asked["nodes"] == (2, 4)


@pytest.mark.parametrize("nodes", [(1, 2, 3), "two", (1, "two")])
def test_other_nodes_are_refused(nodes):
    with pytest.raises(TypeError, match="nodes"):
        ml.Estimator(build=print).setNodes(nodes)


class Fed:
    """A cluster that keeps how it was to be fed."""

    def __init__(self):
        self.options = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def train(self, frame, **options):
        self.options = options
        raise Started


@pytest.mark.parametrize("settings", [{}, {"max_lost_nodes": 1}], ids=["all", "some"])
def test_rows_are_kept_for_further_epochs(monkeypatch, tmp_path, settings):
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: frame)
    cluster = Fed()
    monkeypatch.setattr(tfos, "run", lambda *arguments, **keywords: cluster)
    estimator = ml.Estimator(
        train=print,
        settings=settings,
        modelDir=str(tmp_path),
        inputMapping={"x": "x"},
        labelCol="y",
        epochs=2,
    )
    with pytest.raises(Started):
        estimator._fit(frame)
    assert cluster.options["cache"] == "memory"


class Members:
    """Nodes that train together, of which one may be lost at each barrier: what is left then."""

    is_elastic = True
    rank = 1

    def __init__(self, *ranks):
        self.ranks, *self._later = ranks

    def barrier(self, name):
        if self._later:
            self.ranks = self._later.pop(0)


@pytest.mark.parametrize(
    ("ranks", "times"),
    [
        ([[0, 1, 2]], 0),
        ([[1, 2]], 1),
        ([[0, 1, 2], [1, 2]], 1),
        ([[0, 1, 2], [0, 1]], 0),
        ([[0, 1, 2], [1, 2], [1]], 1),
    ],
    ids=["all", "without the first", "lost in the export", "another lost", "both lost"],
)
def test_the_first_of_those_that_are_left_writes_the_model(monkeypatch, ranks, times):
    from tfos import collective

    written, members = [], Members(*ranks)
    monkeypatch.setattr(collective, "group", lambda: members)
    monkeypatch.setattr(estimator_of.saved_model, "export", lambda *given: written.append(given))
    estimator_of._export(SimpleNamespace(is_chief=False), "model", "directory")
    assert written == [("model", "directory")] * times


def test_an_export_replaces_what_a_lost_node_has_written_of_it(tmp_path):
    import tensorflow as tf

    import keras

    def model_of(weight):
        model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        model.set_weights([np.full((1, 1), weight, np.float32)])
        return model

    path = tmp_path / "model"
    estimator_of.saved_model.export(model_of(1.0), path)
    (path / "saved_model.pb").unlink()
    for part in (path / "variables").iterdir():
        part.write_bytes(part.read_bytes()[:10])
    (path / "variables" / "variables_temp").mkdir()
    (path / "variables" / "variables_temp" / "part-00000-of-00001").write_bytes(b"half")
    estimator_of.saved_model.export(model_of(5.0), path)
    served = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert served(tf.ones([1, 1]))["output_0"].numpy().tolist() == [[5.0]]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("lost", r"must reach\. The chief, worker:0, was lost: "),
        ("stopped", r"must reach\. The chief, worker:0, was lost: "),
        ("done", "must reach$"),
    ],
)
def test_a_model_that_is_missing_is_blamed_on_a_lost_chief(monkeypatch, tmp_path, state, said):
    nodes = [
        SimpleNamespace(name="worker:0", rank=0, state=state),
        # It never came.
        SimpleNamespace(name="worker:1", rank=1, state="lost"),
        SimpleNamespace(name="evaluator:0", rank=None, state="stopped"),
    ]
    session = fake_session(FakeSparkContext(hadoop_conf={"fs.defaultFS": "file:///"}))
    frame = SimpleNamespace(sparkSession=session, select=lambda *names: frame)
    cluster = Fed()
    monkeypatch.setattr(cluster, "train", lambda *arguments, **options: None)
    monkeypatch.setattr(cluster, "status", lambda: nodes, raising=False)
    monkeypatch.setattr(tfos, "run", lambda *arguments, **keywords: cluster)
    monkeypatch.setattr(estimator_of, "beside_files", lambda *_: False)
    estimator = ml.Estimator(
        train=print, nodes=(1, 2), modelDir=str(tmp_path), inputMapping={"x": "x"}
    )
    with pytest.raises(BadInputError, match=said):
        estimator._fit(frame)
