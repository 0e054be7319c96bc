"""What examples print and keep: lines as examples/README.md shows them, and numbers that are those of
the files that they leave."""

import re
import runpy
import sys

import numpy as np
import pandas
import pytest
import tensorflow as tf

import keras
from support.examples.shown_output import assert_as_shown
from support.places import ROOT
from tfos.examples import digits

EXAMPLES = ROOT / "examples"
TWO_EXECUTORS = "local-cluster[2,1,1024]"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def two_executors(spark_on):
    return spark_on(TWO_EXECUTORS)


@pytest.fixture
def printed(two_executors, run_program, capsys, leftovers):
    """A function that runs an example: what it printed."""

    def run(name, *arguments, as_shown=True):
        run_program(EXAMPLES / name, *arguments)
        out = capsys.readouterr().out
        if as_shown:
            assert_as_shown(name, out)
        return out

    return run


def unseen_digits(first=0):
    """(pixels, labels) of the digits from `first` on, which examples do not train on."""
    _, rows = digits.load()
    pixels, labels = zip(*(row for row in rows if row[1] >= first), strict=True)
    return np.array(pixels), np.array(labels)


def accuracy_of(path, first=0):
    """Of a saved model, as examples print it."""
    pixels, labels = unseen_digits(first)
    scores = keras.saving.load_model(path).predict(pixels, verbose=0)
    return f"{np.mean(np.argmax(scores, axis=1) == labels - first):.2%}"


def test_fine_tuning_gains_from_weights_and_keeps_what_is_frozen(printed, tmp_path):
    out = printed("fine_tuning.py", "--directory", tmp_path / "made")
    found = re.findall(
        r"(?m)^(\w+) the weights of the file: accuracy (\S+)% with a new head, (\S+)% when tuned$",
        out,
    )
    reached = {kind: (float(head), float(tuned)) for kind, head, tuned in found}
    assert set(reached) == {"With", "Without"}
    for stage in (0, 1):
        assert reached["With"][stage] > max(reached["Without"][stage] + 2, 88)

    made = tmp_path / "made" / "tuned.keras"
    assert accuracy_of(made, first=5) == f"{reached['With'][1]:.2f}%"
    tuned = keras.saving.load_model(made).layers[1]
    read = keras.models.clone_model(tuned)
    read.load_weights(tmp_path / "made" / "base.weights.h5")
    *frozen, top = [
        (ours.kernel.numpy(), theirs.kernel.numpy())
        for ours, theirs in zip(tuned.layers, read.layers, strict=True)
        if hasattr(ours, "kernel")
    ]
    assert len(frozen) == 2
    for ours, theirs in frozen:
        np.testing.assert_array_equal(ours, theirs)
    assert np.abs(top[0] - top[1]).max() > 0


def test_fine_tuning_reads_the_weights_of_a_whole_model(printed, tmp_path):
    layers = keras.layers
    keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu", kernel_initializer="zeros"),
        ]
    ).save(tmp_path / "base.keras")
    short = ("--head-epochs", "4", "--top-epochs", "1")
    with pytest.raises(AssertionError, match=r"fine_tuning.py ended with 1"):
        # The worst of all bases: its features are zeros, so a head learns nothing from them.
        printed(
            "fine_tuning.py",
            *("--weights", tmp_path / "base.keras", "--directory", tmp_path, *short),
        )
    (top,) = keras.saving.load_model(tmp_path / "tuned.keras").layers[1].layers[-1:]
    assert np.abs(top.kernel.numpy()).max() < 0.01


def test_a_model_trained_with_jax_is_kept_by_one_node(printed, tmp_path):
    out = printed("jax_digits.py", "--directory", tmp_path / "made")
    model = tmp_path / "made" / "model.keras"
    assert f"The model is {model}" in out
    assert float(accuracy_of(model).rstrip("%")) > 85
    assert keras.saving.load_model(model).optimizer.iterations == int(
        re.search(r"steps of the nodes: \[(\d+), ", out).group(1)
    )


def test_a_model_of_text_is_kept_with_its_vocabulary(printed, tmp_path):
    printed("text.py", "--lines", "1500", "--epochs", "3", "--directory", tmp_path)
    model = tf.saved_model.load(str(tmp_path / "model"))
    english, python = model.serve(
        tf.constant(
            ["This is the name of the file that will be read.", "if self.x is not None: y = z"]
        )
    ).numpy()
    assert english > 0.5 > python


def test_a_search_makes_a_table_and_names_its_best_model(printed, tmp_path):
    out = printed("parameter_search.py", "--epochs", "3", "--directory", tmp_path)
    table = pandas.read_parquet(tmp_path / "results")
    assert sorted(table["rate"]) == [0.00001, 0.0003, 0.003, 1.0]
    assert list(table["accuracy"]) == sorted(table["accuracy"], reverse=True)
    best = table.iloc[0]
    assert f"Best learning rate: {best.rate:g}, which recognises {best.accuracy:.2%}" in out
    assert accuracy_of(best.model) == f"{best.accuracy:.2%}"
    assert best.accuracy > 0.8


def test_optuna_chooses_trials_and_the_table_has_them_all(printed, tmp_path):
    out = printed(
        "optuna_search.py", "--rounds", "4", "--epochs", "3", "--directory", tmp_path / "made"
    )
    table = pandas.read_parquet(tmp_path / "made" / "trials")
    assert sorted(table["number"]) == list(range(8))
    assert set(table.columns) == {"number", "activation", "rate", "units", "accuracy"}
    assert list(table["accuracy"]) == sorted(table["accuracy"], reverse=True)
    best = table.iloc[0]
    rounds = re.findall(r"(?m)^Round \d: (\S+)% at best$", out)
    reached = table.sort_values("number")["accuracy"].to_numpy()
    assert rounds == [f"{100 * reached[: 2 * number].max():.2f}" for number in (1, 2, 3, 4)]
    assert f"Best of 8 trials: {best.accuracy:.2%} with " in out
    model = tmp_path / "made" / f"trial-{best.number}.keras"
    assert f"The best model is {model}" in out
    assert accuracy_of(model) == f"{best.accuracy:.2%}"


def test_a_search_without_optuna_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit, match=r"needs Optuna: pip install optuna$"):
        runpy.run_path(str(EXAMPLES / "optuna_search.py"))


@pytest.mark.parametrize(
    ("policy", "computes", "scale"),
    [("mixed_float16", "float16", "32768"), (None, "bfloat16", "none")],
)
def test_layers_compute_in_16_bits(printed, tmp_path, policy, computes, scale):
    chosen = ["--policy", policy] if policy else []
    out = printed(
        *("mixed_precision.py", "--gpus", "0", "--epochs", "4", "--directory", tmp_path, *chosen),
        as_shown=bool(policy),
    )
    line = f"mixed_{computes} on CPU: computes in {computes}, keeps weights in float32"
    for node in (0, 1):
        assert f"node {node}: {line}, loss scale {scale}\n" in out
    assert f"Accuracy: {accuracy_of(tmp_path / 'model.keras')} " in out
