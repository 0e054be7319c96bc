"""Paths may be objects wherever they may be strings."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tfos import ml, records
from tfos.files import paths
from tfos.files.access import access_for, scheme_of
from tfos.inference import model as inference_model
from tfos.node.context import NodeContext


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "one.tfrecord"
    records.write(path, [pa.record_batch({"x": [1, 2]})])
    return path


@pytest.fixture
def context():
    """A NodeContext of the only node, as far as files go."""
    made = NodeContext.__new__(NodeContext)
    made.default_fs, made.working_dir, made.node_id = "file://", "/", 0
    made._bootstrap = {"nodes": [{"node_id": 0, "job_name": "worker", "rank": 0}]}
    return made


def test_files_of_a_node(context, file):
    assert context.files(file) == context.files([file]) == context.files(str(file)) == [str(file)]
    assert context.files(file.parent) == [str(file)]
    assert context.absolute_path(file) == f"file://{file}"


def test_one_file_has_a_schema(file):
    schema = records.infer_schema([str(file)])
    assert schema.names == ["x"]
    assert records.infer_schema(str(file)) == records.infer_schema(file) == schema


def test_access_and_schemes(file):
    assert access_for(file)[1] == str(file)
    assert scheme_of(file) == ""
    assert paths.resolve("hdfs://h:1", "/w", file) == f"hdfs://h:1{file}"


def test_models(tmp_path):
    with pytest.raises(ValueError, match="has no saved_model.pb"):
        inference_model.Model(tmp_path)
    with pytest.raises(ValueError, match="has no saved_model.pb"):
        inference_model.signatures(tmp_path)
    assert ml.Model(modelDir=tmp_path).getModelDir() == str(tmp_path)
    assert ml.Estimator(train=print).setModelDir(tmp_path).getModelDir() == str(tmp_path)
