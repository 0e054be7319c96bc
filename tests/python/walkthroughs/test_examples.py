"""Every example runs, reaches what it promises, which its exit status tells, and prints what
examples/README.md shows."""

import collections
import glob
import os
import pathlib
import posixpath
import re
import runpy
import shutil
import subprocess
import sys

import pytest

from support.examples.shown_output import assert_as_shown, shown
from support.places import ROOT
from tfos.files.access import access_for
from tfos.files.interface import walk

EXAMPLES = ROOT / "examples"
PROGRAMS = {
    str(path.relative_to(EXAMPLES))
    for path in (*EXAMPLES.glob("*.py"), *EXAMPLES.glob("legacy/*.py"))
}
#: Examples and the arguments that keep them short; more than one run where there are variants. They
#: run in this process, on executors that they share: to start their own takes longer than the rest.
RUNS = [
    ("quickstart.py",),
    ("dataset.py",),
    ("images.py", "--pieces", "120", "--epochs", "5"),
    ("click_through.py", "--rows", "12000", "--epochs", "3", "--min-area", "0.65"),
    ("time_series.py", "--days", "30"),
    ("restart.py", "--epochs", "5", "--kill-in", "3", "--min-accuracy", "0.8"),
    ("legacy/mnist_tensorflow.py", "--epochs", "5", "--min-accuracy", "0.8"),
    ("legacy/between_graph.py", "--epochs", "3"),
    ("legacy/model_parallel.py", "--steps", "300"),
    ("legacy/parameter_server_strategy.py", "--steps", "300"),
    ("asynchronous.py", "--epochs", "6", "--min-accuracy", "0.8"),
    ("streaming.py", "--source", "structured"),
    ("streaming.py", "--source", "dstream"),
    ("ml_pipeline.py", "--epochs", "6"),
]
#: By itself, as from a shell: it turns TensorFlow 2 off in the driver.
ALONE = ("legacy/tensorspark_mnist.py", "--epochs", "1", "--port", "0")
#: They print what they have learned: a few numbers.
WITHOUT_MODEL = {"quickstart.py", "legacy/parameter_server_strategy.py"}
THREE_EXECUTORS = "local-cluster[3,1,1024]"
ON_HDFS = "mnist_hdfs.py"
DEMO = "mnist_spark.py"
#: tests/python/walkthroughs/test_diagnosis.py runs it, and docs/diagnosis.md shows its output.
FAULTY = "trouble.py"
#: tests/python/walkthroughs/test_example_results.py does, and looks at what they print and keep.
WITH_RESULTS = {
    "fine_tuning.py",
    "jax_digits.py",
    "mixed_precision.py",
    "optuna_search.py",
    "parameter_search.py",
    "text.py",
}
BOUND_SECONDS = 480


def run_example(name, *arguments, **environment):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
    assert_as_shown(name, done.stdout)
    return done.stdout


@pytest.mark.long
@pytest.mark.spark
def test_example_alone(tmp_path, leftovers):
    assert kept_by(run_example(*ALONE, "--directory", str(tmp_path))) == f"{tmp_path}/model"


@pytest.fixture(scope="module")
def three_executors(spark_on):
    """A session as of tfos.examples, with room for all examples."""
    return spark_on(THREE_EXECUTORS)


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_example(run, three_executors, run_program, capsys, tmp_path, monkeypatch, leftovers):
    name, *arguments = run
    # From an empty folder: it needs nothing that lies beside it.
    (tmp_path / "alone").mkdir()
    program = pathlib.Path(shutil.copy(EXAMPLES / name, tmp_path / "alone"))
    # images.py would look for images there.
    # A relative one, which nodes in other working directories must find, too.
    here = [] if name in {"images.py", *WITHOUT_MODEL} else ["--directory", "kept"]
    monkeypatch.chdir(tmp_path)
    run_program(program, *arguments, *here)
    printed = capsys.readouterr().out
    assert_as_shown(name, printed)
    if name in WITHOUT_MODEL:
        return
    kept = kept_by(printed)
    if here:
        assert pathlib.Path(kept).is_relative_to(tmp_path / "kept")
    else:
        shutil.rmtree(os.path.dirname(kept))


@pytest.mark.long
def test_no_column_of_the_impressions_is_a_copy_of_another(three_executors):
    program = runpy.run_path(str(EXAMPLES / "click_through.py"))
    table = program["make_table"](three_executors, 4000).toPandas().drop(columns="clicked")
    for name in program["TEXTS"]:
        table[name] = table[name].str.rpartition("-")[2].astype(int)
    alike = table.corr(method="spearman").abs().unstack()
    assert len(alike) == 19 * 19
    assert alike[alike.index.map(lambda pair: pair[0] != pair[1])].max() < 0.1


def kept_by(printed):
    """Where an example keeps what it has trained, as it says: a file, a folder with files, or the
    first part of the names of a checkpoint's files."""
    (kept,) = re.findall(
        r"\bThe (?:model|checkpoint|pipeline)\b.* (?:is|are)(?: in)? (/\S+)$", printed, re.M
    )
    files = [
        path
        for path in glob.glob(f"{kept}*/**", recursive=True) + glob.glob(f"{kept}*")
        if os.path.isfile(path)
    ]
    assert sum(map(os.path.getsize, files)) > 0, printed
    return kept


def test_every_example_is_run_here():
    run_here = {ON_HDFS, DEMO, FAULTY, ALONE[0], *(run[0] for run in RUNS)}
    assert WITH_RESULTS | run_here == PROGRAMS


@pytest.mark.parametrize("name", sorted(PROGRAMS - {FAULTY}))
def test_the_page_shows_what_it_prints(name):
    assert shown(name)


# Four clusters, one after the other, take more than the usual bound on a busy machine.
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(BOUND_SECONDS + 120)
def test_the_example_on_hdfs_leaves_all_of_it_there(hdfs, hadoop, leftovers):
    directory = f"{hdfs.uri}/mnist"
    run_example(
        ON_HDFS,
        "--directory",
        directory,
        "--epochs",
        "3",
        "--partitions",
        "2",
        "--min-accuracy",
        "0.5",
        HADOOP_CONF_DIR=str(hdfs.configuration),
    )
    access, directory = access_for(directory)
    sizes = {posixpath.relpath(file.path, directory): file.size for file in walk(access, directory)}
    for name in (
        "checkpoints/epoch-01.keras",
        "checkpoints/epoch-03.keras",
        "model/saved_model.pb",
        "model/variables/variables.index",
    ):
        assert sizes[f"tensorflow/{name}"] > 0
    assert any(re.match(r"tensorflow/events/train/events\.out\.tfevents\.", name) for name in sizes)
    assert sizes["spark/model/saved_model.pb"] > 0
    rows = collections.Counter()
    for name in sizes:
        if re.match(r"csv/test/|(tensorflow|spark)/predictions/", name):
            with access.open(posixpath.join(directory, name)) as file:
                rows[posixpath.dirname(name)] += len(file.readlines())
    assert rows["tensorflow/predictions"] == rows["spark/predictions"] == rows["csv/test"] > 0


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    "run",
    [
        ("restart.py", "--epochs", "5", "--kill-in", "3", "--min-accuracy", "0.8"),
        ("asynchronous.py", "--epochs", "6", "--min-accuracy", "0.8"),
        ("legacy/model_parallel.py", "--steps", "300"),
    ],
    ids=lambda run: run[0],
)
def test_an_example_keeps_its_model_on_hdfs(run, hdfs, hadoop, leftovers):
    name, *arguments = run
    directory = f"{hdfs.uri}/{name}"
    run_example(name, *arguments, "--directory", directory, HADOOP_CONF_DIR=str(hdfs.configuration))
    access, directory = access_for(directory)
    sizes = {posixpath.relpath(file.path, directory): file.size for file in walk(access, directory)}
    assert any(name.startswith("model") and size for name, size in sizes.items()), sizes


@pytest.mark.long
def test_the_demo_prints_dated_predictions(standalone_cluster, leftovers):
    printed = run_example(
        # Three partitions for two nodes: one node gets more rows than the other.
        DEMO,
        "--master",
        standalone_cluster.url,
        "--epochs",
        "6",
        "--partitions",
        "3",
        "--min-accuracy",
        "0.5",
    )
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} Label: \d, Prediction: \d"
    assert len(re.findall(rf"(?m)^{line}$", printed)) == 10
    assert re.search(r"(?m)^Accuracy: \d+\.\d\d%", printed)
