"""The jar for the JVM, in a real Spark: reached from here through Spark's own gateway."""

from __future__ import annotations

import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame, functions

import tfos
from support.places import ROOT
from support.programs import nodes as programs
from support.spark_errors import SPARK_ERRORS
from tfos import inference, records
from tfos.records import files as record_files
from tfos.records.spark import types

ONE_EXECUTOR = "local-cluster[1,4,1024]"
SPARK_HOME = pathlib.Path(pyspark.__file__).parent
PAGE = (ROOT / "docs/jvm.md").read_text()


def example(language):
    """The program of that language in the page."""
    (program,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return program


@pytest.fixture(scope="module")
def java_example(tmp_path_factory):
    """A jar of the page's Java program."""
    directory = tmp_path_factory.mktemp("java")
    (directory / "Score.java").write_text(example("java"))
    class_path = f"{tfos.jar_path()}:{SPARK_HOME}/jars/*"
    subprocess.run(["javac", "-cp", class_path, "Score.java"], cwd=directory, check=True)
    subprocess.run(["jar", "cf", "score.jar", "Score.class"], cwd=directory, check=True)
    return directory / "score.jar"


@pytest.fixture(scope="module")
def spark(spark_on):
    """An executor, a JVM of its own."""
    return spark_on(ONE_EXECUTOR)


@pytest.fixture(scope="module")
def jvm(spark):
    """The driver's."""
    return spark.sparkContext._jvm


@pytest.fixture(scope="module")
def old(jvm):
    return jvm.com.yahoo.tensorflowonspark


@pytest.fixture(scope="module")
def new(jvm):
    return jvm.tfos


@pytest.fixture(scope="module")
def numbers(models):
    return np.load(models / "keras.npz")


@pytest.fixture(scope="module")
def digits(spark, numbers):
    """The numbers of the Keras model, in two partitions."""
    rows = [(n, x.tolist()) for n, x in enumerate(numbers["x"])]
    return spark.createDataFrame(rows, "id long, x array<float>")


def strings(spark, values):
    """An array of Java."""
    array = spark.sparkContext._gateway.new_array(spark._jvm.String, len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array


def run(model, frame):
    return DataFrame(model.transform(frame._jdf), frame.sparkSession)


def expected(model, frame, **options):
    """What the engine makes of the rows in this process, as lists of values."""
    table = frame.toArrow()
    inference_of = model.on(table.schema, **options)
    return [
        list(row.values())
        for batch in inference_of.run(table.to_batches())
        for row in batch.to_pylist()
    ]


def values(frame):
    """As pyarrow has them: binary as bytes."""
    return [
        [bytes(value) if isinstance(value, bytearray) else value for value in row]
        for row in frame.collect()
    ]


def test_the_native_library_is_that_of_the_jar(jvm):
    assert jvm.tfos.internal.base.NativeLibrary.version() == tfos.__version__


def test_the_old_model_gives_the_mapped_columns_alone(old, models, digits, numbers):
    model = (
        old.TFModel()
        .setModel(str(models / "keras"))
        .setBatchSize(7)
        .setInputMapping({"x": "keras_tensor"})
        .setOutputMapping({"output_0": "y"})
    )
    result = run(model, digits)
    assert result.columns == ["y"]
    got = np.array([row.y for row in result.collect()], np.float32)
    np.testing.assert_allclose(got, numbers["y"], rtol=1e-5, atol=1e-5)


def test_results_are_those_of_the_python_engine_to_the_last_bit(new, models, digits):
    frame = digits.coalesce(1)  # The same batches here and there.
    model = new.ml.TensorFlowModel().setModelDir(str(models / "keras")).setBatchSize(9)
    result = run(model.setInputMapping({"x": "any name"}), frame)
    assert result.columns == ["id", "x", "output_0"]
    python = inference.Model(str(models / "keras"), threads=1)
    (name,) = python.inputs
    assert values(result) == expected(
        python, frame, input_mapping={"x": name}, keep=True, batch_size=9
    )


def test_strings_several_outputs_and_their_types(new, spark, models):
    frame = spark.createDataFrame(
        [
            (word, pair, {"unused": 1})
            for word, pair in [
                ("red", [1, 2]),
                ("blue", [300, 4]),
                ("ä" * 40, [5, 6]),
                ("", [0, 0]),
            ]
            * 30
        ],
        "word string, pair array<int>, other map<string, int>",
    ).coalesce(1)
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "text"))
        .setBinaryOutputs(strings(spark, ["bytes"]))
    )
    kept = run(model, frame)
    assert kept.columns[:3] == ["word", "pair", "other"] and kept.first().other == {"unused": 1}
    result = run(model.setKeepInputs(False), frame)
    python = inference.Model(str(models / "text"))
    wanted = expected(python, frame.drop("other"), binary_outputs=["bytes"])
    assert values(result) == wanted
    assert result.columns == sorted(python.outputs)


def test_numbers_of_every_type_become_tensors(new, spark, models):
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "others"))
        .setSignature("two")
        .setKeepInputs(False)
    )
    numbers = spark.range(9, numPartitions=1)
    for kind in ("tinyint", "smallint", "int", "bigint", "float", "double"):
        result = run(
            model, numbers.selectExpr("cast(id * 2 as float) AS x", f"cast(id as {kind}) AS y")
        )
        assert [row.difference for row in result.collect()] == list(range(9)), kind
    moments = spark.range(1, 4, numPartitions=1)
    for kind in ("timestamp_micros(id)", "date_from_unix_date(cast(id as int))"):
        result = run(model.setSignature("varying"), moments.selectExpr(f"{kind} AS n"))
        assert [row.range for row in result.collect()] == [[n] * 3 for n in (1, 2, 3)], kind


def test_vectors_images_fixed_rows_and_tensorflow_1(new, spark, models):
    def outputs(signature, frame, directory="others", tags="serve"):
        model = (
            new.ml.TensorFlowModel()
            .setModelDir(str(models / directory))
            .setTags(tags)
            .setSignature(signature)
            .setKeepInputs(False)
            .setBatchSize(3)
        )
        return [row.asDict() for row in run(model, frame).collect()]

    lists = spark.range(10, numPartitions=1).selectExpr("array(cast(id as double), 1d) AS x")
    vectors = lists.select(array_to_vector("x").alias("x"))
    for frame in (lists, vectors):
        assert outputs("fixed", frame) == [{"sum": n + 1, "rows": 4} for n in range(10)]
    images = spark.createDataFrame(
        [(bytearray(range(n, n + 6)),) for n in range(3)], "image binary"
    ).coalesce(1)
    assert outputs("image", images) == [
        {"mean": n + 2.5, "top": [n, n + 1, n + 2]} for n in range(3)
    ]
    # An output of [?, 1] is a plain number.
    assert outputs("predict", lists.limit(2), "tf1", "serve,old") == [{"y": 3.0}, {"y": 5.0}]


def test_what_does_not_fit_is_said_before_anything_runs(old, new, spark, models):
    frame = spark.createDataFrame([("a", 1.0)], "word string, pair double")
    model = old.TFModel().setModel(str(models / "text")).setOutputMapping({"nothing": "y"})
    with pytest.raises(IllegalArgumentException) as error:
        run(model, frame)
    for part in (
        f"file:{models}/text",
        "input pair: expected int32[?, 2], found column 'pair' of float64",
        "output nothing: the signature has no such output; it has",
        "The columns: word string",
    ):
        assert part in str(error.value)
    with pytest.raises(IllegalArgumentException, match="outputMapping is empty"):
        run(old.TFModel().setModel(str(models / "text")), frame)
    with pytest.raises(IllegalArgumentException, match="/keras would be one"):
        run(new.ml.TensorFlowModel().setModelDir(str(models)), frame)
    with pytest.raises(
        IllegalArgumentException, match="no such signature|has no signature|'absent'"
    ):
        run(
            new.ml.TensorFlowModel().setModelDir(str(models / "text")).setSignature("absent"), frame
        )
    twice = spark.createDataFrame([(1.0, 2.0, 3.0)], "x float, y float, difference float")
    with pytest.raises(IllegalArgumentException, match="column difference would be there twice"):
        run(new.ml.TensorFlowModel().setModelDir(str(models / "others")).setSignature("two"), twice)


def test_a_null_is_an_error_with_column_row_and_partition(new, spark, models):
    frame = spark.range(20, numPartitions=2).selectExpr(
        "cast(nullif(id, 17) as float) AS x", "1f AS y"
    )
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "others"))
        .setSignature("two")
        .setBatchSize(4)
    )
    with pytest.raises(SPARK_ERRORS, match=r"partition 1: column x has a null in row 7") as error:
        run(model, frame).collect()
    assert str(models / "others") in str(error.value)


def test_tensors_by_their_names_in_the_graph(old, models, digits, numbers):
    _, (_, (fed,), (fetched,)) = inference.Model(str(models / "keras"))._found.__reduce__()
    _, input_edge, *_ = fed
    _, output_edge, *_ = fetched
    assert output_edge.endswith(":0")
    for edge in (output_edge, output_edge.removesuffix(":0")):
        model = (
            old.TFModel()
            .setModel(str(models / "keras"))
            .setInputMapping({"x": input_edge})
            .setOutputMapping({edge: "y"})
        )
        np.testing.assert_allclose(
            [row.y for row in run(model, digits).collect()], numbers["y"], rtol=1e-5, atol=1e-5
        )


def test_a_model_stays_loaded_on_a_file_system_of_hadoops(
    new, spark, models, tmp_path, mounted_path
):
    """The executor copies it once: then it runs although its variables are gone."""
    shutil.copytree(models / "keras", tmp_path / "model")
    frame = spark.range(16, numPartitions=6).selectExpr("array_repeat(cast(id as float), 4) AS x")
    model = (
        new.ml.TensorFlowModel().setModelDir(f"{mounted_path}/model").setInputMapping({"x": "x"})
    )
    first = values(run(model, frame))
    (data,) = (tmp_path / "model" / "variables").glob("variables.data-*")
    data.unlink()
    assert values(run(model, frame)) == first
    # Files that changed are loaded anew, and these can't be.
    shutil.copytree(models / "keras", tmp_path / "model", dirs_exist_ok=True)
    index = tmp_path / "model" / "variables" / "variables.index"
    index.write_bytes(index.read_bytes() + b"\0")
    with pytest.raises(Py4JJavaError):
        run(model, frame)._jdf.count()


def test_stages_are_saved_and_loaded_with_their_parameters(
    old, new, jvm, spark, models, digits, tmp_path
):
    model = (
        old.TFModel()
        .setModel(str(models / "keras"))
        .setTag("serve")
        .setBatchSize(9)
        .setSignatureDefKey("serving_default")
        .setInputMapping({"x": "keras_tensor"})
        .setOutputMapping({"output_0": "y"})
    )
    stages = spark.sparkContext._gateway.new_array(jvm.org.apache.spark.ml.PipelineStage, 2)
    stages[0] = jvm.org.apache.spark.ml.feature.SQLTransformer().setStatement(
        "SELECT x FROM __THIS__"
    )
    stages[1] = model
    pipeline = jvm.org.apache.spark.ml.Pipeline().setStages(stages)
    fitted = pipeline.fit(digits._jdf)
    assert fitted.transformSchema(digits._jdf.schema()).simpleString() == "struct<y:array<float>>"
    fitted.save(str(tmp_path / "pipeline"))
    loaded = jvm.org.apache.spark.ml.PipelineModel.load(str(tmp_path / "pipeline"))
    assert values(run(loaded, digits)) == values(run(model, digits))
    stage = loaded.stages()[1]
    assert stage.getBatchSize() == 9 and stage.uid() == model.uid()

    clean = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "keras"))
        .setKeepInputs(False)
        .setOutputMapping({"a": "b"})
        .setBinaryOutputs(strings(spark, ["a"]))
    )
    stages[1] = clean
    pipeline.setStages(stages).save(str(tmp_path / "clean"))
    again = jvm.org.apache.spark.ml.Pipeline.load(str(tmp_path / "clean")).getStages()[1]
    # With a copy of its model.
    assert again.getModelDir().startswith(f"file:{tmp_path}/clean/stages/1_")
    assert (again.getKeepInputs(), again.getBatchSize()) == (False, 128)
    assert again.getOutputMapping().toString() == clean.getOutputMapping().toString()
    assert list(again.getBinaryOutputs()) == ["a"]


def test_without_tensorflow_the_error_says_where_it_was_looked_for(jvm, tmp_path):
    find = jvm.tfos.internal.inference.TensorFlowLibrary.find
    assert pathlib.Path(find(None, sys.executable)).name == "tensorflow"
    for named, python, message in [
        (str(tmp_path), "python3", f"TFOS_TENSORFLOW names {tmp_path}"),
        (None, "/no/python", "/no/python could not be started"),
    ]:
        with pytest.raises(SPARK_ERRORS, match=message) as error:
            find(named, python)
        assert "Install tensorflow 2.16 or newer" in str(error.value)


#: Every type that a record can hold; nulls, empty lists and characters of several bytes among them.
ALL_TYPES = (
    "id % 2 = 0 AS b",
    "cast(id % 100 - 50 as tinyint) AS i8",
    "cast(id - 1000 as smallint) AS i16",
    "cast(-id as int) AS i",
    "id * 1099511627776 AS l",
    "cast(id as float) / 4f AS f",
    "id / 8d AS d",
    "nullif(concat('ä', id), 'ä7') AS s",
    "encode(concat(id, 'é'), 'ISO-8859-1') AS z",
    "array(true, false, id % 3 = 0) AS bs",
    "sequence(0, id % 5 + 1) AS ls",
    "array_repeat(cast(id as float) / 2f, 3) AS fs",
    "array(id / 2d, -1d) AS ds",
    "array(cast(id as string), 'é', '') AS ss",
    "array(encode(concat(id, 'é'), 'ISO-8859-1'), X'') AS zs",
    "if(id % 11 = 0, null, slice(array(id, id + 1), 1, cast(id % 3 as int))) AS some",
)


def all_types(spark, rows, partitions):
    # Casts of a float and a float are a double to Spark.
    return (
        spark.range(rows, numPartitions=partitions)
        .selectExpr(*ALL_TYPES)
        .withColumn("f", functions.col("f").cast("float"))
        .withColumn("fs", functions.col("fs").cast("array<float>"))
    )


def test_tfrecords_come_back_as_they_were_and_python_reads_the_same(old, spark, tmp_path):
    frame = all_types(spark, 2_500, 2)
    directory = tmp_path / "all"
    old.DFUtil.saveAsTFRecords(frame._jdf, str(directory))
    files = sorted(map(str, directory.glob("part-*.tfrecord")))
    assert len(files) == 2 and (directory / "_SUCCESS").exists()

    loaded = DataFrame(old.DFUtil.loadTFRecords(str(directory), frame._jdf.schema()), spark)
    assert loaded.schema.simpleString() == frame.schema.simpleString()
    assert sorted(values(loaded), key=str) == sorted(values(frame), key=str)

    # Without a hint: the columns that Python finds, and in them what Python reads.
    sample = record_files.SchemaSample("Example", strings=True)
    sample.add(files[0], 1_000)
    found = DataFrame(old.DFUtil.loadTFRecords(str(directory)), spark)
    assert found.schema.simpleString() == types.spark_schema(sample.schema()).simpleString()
    wanted = [
        list(row.values())
        for file in files
        for batch in records.read(file, sample.schema())
        for row in batch.to_pylist()
    ]
    assert sorted(values(found), key=str) == sorted(wanted, key=str)
    with pytest.raises(SPARK_ERRORS, match="already exists"):
        old.DFUtil.saveAsTFRecords(frame._jdf, str(directory))


def test_the_bytes_are_those_that_python_writes(new, spark, tmp_path):
    frame = all_types(spark, 300, 1)
    new.TFRecords.save(frame._jdf, str(tmp_path / "java"))
    records.write(str(tmp_path / "python.tfrecord"), [frame.toArrow()])
    (file,) = (tmp_path / "java").glob("part-*")
    assert file.read_bytes() == (tmp_path / "python.tfrecord").read_bytes()


def test_hints_come_first_and_types_that_do_not_fit_are_said(
    new, old, spark, tmp_path, mounted_path
):
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "f": [0.5, 1.5], "z": ["x", "y"]})
    os.mkdir(tmp_path / "data")
    records.write(str(tmp_path / "data" / "one.tfrecord.gz"), [table], compression="GZIP")
    records.write(str(tmp_path / "data" / "two.tfrecord"), [table])
    (tmp_path / "data" / "two.tfrecord.tfindex").write_text("not a record")
    hint = old.SimpleTypeParser.parse("struct<z:binary,missing:array<long>,f:double>")
    loaded = DataFrame(
        new.TFRecords.load(spark._jsparkSession, f"{mounted_path}/data", hint), spark
    )
    assert (
        loaded.schema.simpleString() == "struct<z:binary,missing:array<bigint>,f:double,a:bigint>"
    )
    assert sorted(values(loaded), key=str) == sorted(
        2 * [[b"x", None, 0.5, 1], [b"y", None, 1.5, 2]], key=str
    )

    wrong = old.SimpleTypeParser.parse("struct<f:long>")
    with pytest.raises(SPARK_ERRORS, match=r"\.tfrecord(\.gz)?: record 0 at offset 0: .*f"):
        DataFrame(
            new.TFRecords.load(spark._jsparkSession, str(tmp_path / "data"), wrong), spark
        ).collect()
    with pytest.raises(IllegalArgumentException, match="column m is map<int,int>: make an array"):
        new.TFRecords.save(spark.sql("SELECT map(1, 2) AS m")._jdf, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_vectors_and_decimals_are_written_as_python_writes_them(new, spark, tmp_path):
    frame = (
        spark.range(3, numPartitions=1)
        .selectExpr("array(cast(id as double), 0.5d) AS v", "cast(id as decimal(8, 2)) / 4 AS d")
        .withColumn("v", array_to_vector("v"))
    )
    new.TFRecords.save(frame._jdf, str(tmp_path / "v"))
    back = DataFrame(new.TFRecords.load(spark._jsparkSession, str(tmp_path / "v")), spark)
    assert values(back.select("v", "d")) == [[[float(n), 0.5], n / 4] for n in range(3)]


def test_a_damaged_file_is_named_and_a_failed_write_leaves_nothing(new, spark, tmp_path):
    records.write(str(tmp_path / "bad.tfrecord"), [pa.table({"a": list(range(2_000))})])
    content = bytearray((tmp_path / "bad.tfrecord").read_bytes())
    content[-6] ^= 1
    (tmp_path / "bad.tfrecord").write_bytes(content)
    loaded = new.TFRecords.load(spark._jsparkSession, str(tmp_path / "bad.tfrecord"))
    with pytest.raises(SPARK_ERRORS, match=r"bad\.tfrecord.*record 1999"):
        DataFrame(loaded, spark).collect()
    with pytest.raises(SPARK_ERRORS, match=r"bad\.tfrecord.*record 1999"):
        new.TFRecords.save(loaded, str(tmp_path / "out"))
    # This one is refused when the file is closed, and Spark closes it again.
    hole = spark.sql("SELECT array(1, null) AS a")._jdf
    with pytest.raises(SPARK_ERRORS, match="null"):
        new.TFRecords.save(hole, str(tmp_path / "hole"))
    left = (
        [file.name for file in (tmp_path / "out").rglob("*") if file.is_file()]
        if (tmp_path / "out").exists()
        else []
    )
    assert not [name for name in left if name.startswith("part") or name == "_SUCCESS"]


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("struct<a:int,b:array<float>>", "struct<a:int,b:array<float>>"),
        (
            " struct<image/encoded:binary, image-size:long> ",
            "struct<image/encoded:binary,image-size:bigint>",
        ),
        (
            "struct<s:struct<x:int,y:decimal(3,1)>,t:string>",
            "struct<s:struct<x:int,y:decimal(3,1)>,t:string>",
        ),
        ("struct<>", "struct<>"),
    ],
)
def test_schema_hints(old, text, wanted):
    assert old.SimpleTypeParser.parse(text).simpleString() == wanted


@pytest.mark.parametrize(
    "text, message",
    [
        ("int", "does not begin with struct<"),
        ("struct<a>", "'a' is not name:type"),
        ("struct<a:array<int>", "brackets don't match"),
        ("struct<a:wood>", "field a has the type 'wood'"),
        ("struct<:int>", "has no name"),
    ],
)
def test_text_that_is_no_schema_hint(old, text, message):
    with pytest.raises(IllegalArgumentException, match=re.escape(message)):
        old.SimpleTypeParser.parse(text)


@pytest.fixture
def page_data(models, spark, digits, tmp_path):
    """What the page's programs read: TFRecords and a model."""
    shutil.copytree(models / "keras", tmp_path / "model")
    table = digits.selectExpr("x AS pixels", "id AS label").toArrow()
    os.mkdir(tmp_path / "train")
    records.write(str(tmp_path / "train" / "part-0"), [table])
    return tmp_path


def logits_in(directory):
    """Those in TFRecords, by size."""
    return sorted(
        row["logits"]
        for file in directory.glob("part-*")
        for batch in records.read(file)
        for row in batch.to_pylist()
    )


def test_the_java_program_of_the_page(java_example, page_data, numbers):
    # The driver's JVM of this process may be older than the program, and can't be given more classes.
    subprocess.run(
        [
            SPARK_HOME / "bin/spark-submit",
            "--master",
            "local[1]",
            "--conf",
            "spark.ui.enabled=false",
            "--jars",
            tfos.jar_path(),
            "--class",
            "Score",
            java_example,
            page_data,
        ],
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
        check=True,
        timeout=200,
    )
    np.testing.assert_allclose(
        logits_in(page_data / "logits"), sorted(numbers["y"].tolist()), rtol=1e-5, atol=1e-5
    )


def test_the_inference_program(old, spark, page_data, numbers):
    line = next(line for line in PAGE.replace("\\\n", " ").splitlines() if "--export_dir" in line)
    words = [
        word.replace("hdfs:///digits", str(page_data))
        for word in re.findall(r"'[^']*'|\S+", line.partition(".jar ")[2])
    ]
    old.Inference.run(spark._jsparkSession, strings(spark, [word.strip("'") for word in words]))
    rows = spark.read.json(str(page_data / "logits")).collect()
    np.testing.assert_allclose(
        sorted(row.logits for row in rows), sorted(numbers["y"].tolist()), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(
        IllegalArgumentException, match="there is no option --frob\nusage: spark-submit"
    ):
        old.Inference.run(spark._jsparkSession, strings(spark, ["--frob=1"]))


def test_the_scala_program_of_the_page_in_a_shell(page_data, numbers):
    program = page_data / "program.scala"
    program.write_text(f'val data = "{page_data}"\n{example("scala")}\nSystem.exit(0)\n')
    # The shell reads its own standard input, and would wait there after an error.
    done = subprocess.run(
        [
            SPARK_HOME / "bin/spark-shell",
            "--master",
            "local[1]",
            "--conf",
            "spark.ui.enabled=false",
            "--jars",
            tfos.jar_path(),
            "-I",
            program,
        ],
        stdin=subprocess.DEVNULL,
        cwd=page_data,
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (page_data / "scored" / "_SUCCESS").exists(), done.stdout[-3000:] + done.stderr[-3000:]
    np.testing.assert_allclose(
        logits_in(page_data / "scored"), sorted(numbers["y"].tolist()), rtol=1e-5, atol=1e-5
    )


# Here because a process has one SparkContext at a time, and that of other files has two executors.
def test_several_nodes_on_one_executor(spark, tmp_path, leftovers):
    rdd = spark.sparkContext.parallelize(range(3000), 6)
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark, programs.collect_rows, nodes=3, args=arguments) as cluster:
        cluster.train(rdd)
    seen = {path.name: pickle.loads(path.read_bytes()) for path in tmp_path.glob("rows-*")}
    assert sorted(sum(seen.values(), [])) == list(range(3000))
    assert set(seen) == {"rows-0", "rows-1", "rows-2"}
