"""Running models over rows: tfos against tensorflowonspark 2.2.5, Spark's predict_batch_udf, and the
two bounds: a bare Spark pass over the rows, and TensorFlow's session on batches that are ready.

    python bench/inference/compare.py [--repeat 3] [--output docs/performance.md]

Needs `cmake --preset bench && cmake --build --preset bench --target session_rate`. All numbers are of one
run; results are compared with NumPy's before anything is timed. The engine may add 30 us to a
call with one row.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
from pyarrow import parquet

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "feed"))

import compare as feed_compare  # noqa: E402  (the rival's environment)
import report  # noqa: E402
from spark_inference import features, write_rows  # noqa: E402

import tfos  # noqa: E402

ROWS = 200_000
BATCH = 1_024
SESSION_RATE = ROOT / "build/bench/bench/inference/session_rate"
#: Passes over the file of records in the longer of two runs of `tfos infer`.
PASSES = 5


def measured(python, cases, model, data, options, jar=""):
    """Sorted rates by case."""
    command = [
        python,
        HERE / "spark_inference.py",
        "--cases",
        *cases,
        "--model",
        model,
        "--data",
        data,
        "--repeat",
        str(options.repeat),
        "--batch-size",
        str(BATCH),
        "--jar",
        jar,
    ]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
    )
    line = next((l for l in done.stdout.splitlines() if l.startswith("RESULT ")), None)
    if line is None:
        sys.exit(f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-6000:]}")
    rates = {
        case: sorted(found) for case, found in json.loads(line.removeprefix("RESULT ")).items()
    }
    for case, found in rates.items():
        print(f"  {case} ({python}): {text(found)}", flush=True)
    return rates


def text(rates):
    return f"{statistics.median(rates):,.0f} ({rates[0]:,.0f} to {rates[-1]:,.0f})"


def session(model, sessions, threads):
    tensorflow = os.path.dirname(importlib.util.find_spec("tensorflow").origin)
    done = subprocess.run(
        [SESSION_RATE, tensorflow, model, str(BATCH), str(sessions), str(threads)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    print(f"  session, {sessions} of {threads} threads: {done.stdout.strip()}", flush=True)
    return json.loads(done.stdout)


def infer_rate(model, directory, repeat):
    """Rows a second of `tfos infer` from records to Parquet: what further passes over them take, so
    without the start of Python and the loading of the model."""
    from tfos import records
    from tfos.base import executable

    with open(os.path.join(model, "input_name.txt")) as file:
        name = file.read()
    first = directory / "0.tfrecord"
    records.write(
        first,
        (
            pa.record_batch(
                {
                    name: pa.FixedSizeListArray.from_arrays(
                        pa.array(features(range(begin, begin + 10_000)).ravel()), 784
                    )
                }
            )
            for begin in range(0, ROWS, 10_000)
        ),
    )
    for number in range(1, PASSES):
        os.link(first, directory / f"{number}.tfrecord")

    def seconds(files):
        output = directory / "out.parquet"
        begin = time.monotonic()
        subprocess.run(
            [
                executable.path(),
                "infer",
                "--model",
                model,
                "--input",
                *map(str, files),
                "--output",
                str(output),
                "--overwrite",
            ],
            check=True,
            capture_output=True,
        )
        took = time.monotonic() - begin
        assert parquet.ParquetFile(output).metadata.num_rows == ROWS * len(files)
        return took

    files = sorted(directory.glob("*.tfrecord"))
    seconds(files[:1])
    weights = np.load(os.path.join(model, "weights.npz"))
    hidden = np.maximum(features(range(500)) @ weights["w1"] + weights["b1"], 0)
    got = parquet.read_table(directory / "out.parquet").column(0).slice(0, 500).to_pylist()
    np.testing.assert_allclose(got, hidden @ weights["w2"] + weights["b2"], rtol=1e-3, atol=1e-3)
    rates = sorted(
        ROWS * (PASSES - 1) / (seconds(files) - seconds(files[:1])) for _ in range(repeat)
    )
    print(f"  tfos infer: {text(rates)}", flush=True)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    if not SESSION_RATE.exists():
        sys.exit(
            f"{SESSION_RATE} is missing: cmake --preset bench && cmake --build --preset bench "
            "--target session_rate"
        )
    rival = feed_compare.rival_python()
    with tempfile.TemporaryDirectory() as temporary:
        model = os.path.join(temporary, "model")
        subprocess.run(
            [sys.executable, HERE / "make_model.py", model], check=True, capture_output=True
        )
        data = pathlib.Path(temporary, "rows")
        data.mkdir()
        write_rows(data, ROWS)
        cases = ("transform", "jvm", "bare", "udf")
        rates = measured(sys.executable, cases, model, data, options, tfos.jar_path())
        workers, jvms, bare, udf = (rates[case] for case in cases)
        theirs = measured(rival, ("transform",), model, data, options)["transform"]
        ready = session(model, sessions=2, threads=1)
        alone = session(model, sessions=1, threads=os.cpu_count())
        inferred = infer_rate(model, pathlib.Path(temporary), options.repeat)

    median = statistics.median
    bound = min(median(bare), ready["rows_per_s"])
    rivals = (
        ("2.2.5", text(theirs), median(theirs), 1, "10x"),
        ("`predict_batch_udf`", text(udf), median(udf), 1, "above 1x"),
        (
            "a bare `mapInArrow`, or the session on ready batches, the lower",
            f"{bound:,.0f}",
            bound,
            2,
            "0.8x",
        ),
    )
    lines = [
        "| rows a second | tfos | rival | ratio | to reach |",
        "|---|---|---|---|---|",
        *(
            f"| `TFModel.transform`, {where}, against {what} | {text(ours)} | {shown} | "
            f"**{median(ours) / value:.{digits}f}x** | {target} |"
            for where, ours in (("in the executors' JVMs", jvms), ("in Python workers", workers))
            for what, shown, value, digits, target in rivals
        ),
        f"| `tfos infer`, TFRecord to Parquet, against the session on ready batches | {text(inferred)} | "
        f"{alone['rows_per_s']:,.0f} | **{median(inferred) / alone['rows_per_s']:.2f}x** | 0.8x |",
        "",
        f"A call with one row: {alone['session_us']:.1f} us in TensorFlow's session, "
        f"{alone['engine_us']:.1f} us with the engine around it; with one thread "
        f"{ready['session_us']:.1f} us and {ready['engine_us']:.1f} us.",
    ]
    report.publish(
        "compare.py",
        options.repeat,
        f"{ROWS:,} rows of 784 floats through a dense net, 784 to 128 "
        f"to 10, in batches of {BATCH:,}; two executors of one core. Medians, with minimum and maximum.",
        lines,
        options.output,
        folder="inference",
    )


if __name__ == "__main__":
    main()
