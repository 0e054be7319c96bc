"""Feeding from Spark: tfos against tensorflowonspark 2.2.5 and against a bare Spark pass.

Runs feed_workload.py for each case in both environments, with as many rows and in turns, and writes
the table of medians and ratios as Markdown.

    python bench/feed/compare.py [--output docs/performance.md] [--repeat 3] [--case lists ...]

The rival's environment (build/bench/venv-2.2.5) is made on the first run from PyPI.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import venv
from itertools import chain

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
RIVAL_ENVIRONMENT = ROOT / "build" / "bench" / "venv-2.2.5"
RIVAL_PACKAGES = [
    "setuptools<82",
    "tensorflowonspark==2.2.5",
    "pyspark==4.1.4",
    "tensorflow-cpu==2.21.0",
]

#: case: (rows, ratio to reach, what a row is). With fewer rows, Spark's own time for a job would be
#: most of what tfos takes.
CASES = {
    "lists": (60_000, 6, "(list of 784 floats, label)"),
    "numpy": (200_000, 20, "(NumPy array of 784 float64, label)"),
    "bytes": (5_000, 4, "bytes of 100 KiB"),
    "ints": (1_000_000, 150, "int"),
    "inference": (60_000, 6, "(list of 784 floats, label), echoed"),
}
#: How often each side has its turn: a machine that grows busier must not be blamed on one of them.
TURNS = 2
#: case: rows of a small job, where Spark's own time for a job dominates; ratio to a bare pass.
SMALL = {"lists": 20_000, "bytes": 1_000, "ints": 200_000}
SMALL_RATIO = 0.7


def rival_python():
    python = RIVAL_ENVIRONMENT / "bin" / "python"
    if not python.exists():
        print(f"Making {RIVAL_ENVIRONMENT} with {', '.join(RIVAL_PACKAGES)} ...", flush=True)
        venv.create(RIVAL_ENVIRONMENT, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *RIVAL_PACKAGES], check=True)
        # Its dependency on the full tensorflow would replace tensorflow-cpu.
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "tf_keras"], check=True)
    return python


def workload(python, case, rows, repeat):
    command = [
        python,
        ROOT / "bench/feed/feed_workload.py",
        "--case",
        case,
        "--rows",
        str(rows),
        "--repeat",
        str(repeat),
    ]
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    line = next((l for l in done.stdout.splitlines() if l.startswith("RESULT ")), None)
    if line is None:
        sys.exit(
            f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-6000:]}"
        )
    result = json.loads(line.removeprefix("RESULT "))
    print(f"  {python}: {summary(result['cluster'])}", flush=True)
    return result


def in_turns(pythons, case, rows, repeat):
    """For each of `pythons`, what `workload` found in all its turns, in the order of the turns."""
    found = [[] for _ in pythons]
    for _ in range(TURNS):
        for python, runs in zip(pythons, found):
            runs.append(workload(python, case, rows, repeat)["cluster"])
    return found


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def summary(runs):
    rates = sorted(run["rows_per_s"] for run in runs)
    return f"{statistics.median(rates):,.0f} rows/s ({rates[0]:,.0f} to {rates[-1]:,.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", choices=CASES, nargs="*", default=list(CASES))
    options = parser.parse_args()
    rival = rival_python()

    lines = [
        "| rows of | tfos | 2.2.5 | ratio | to reach | CPU/row tfos | CPU/row 2.2.5 |",
        "|---|---|---|---|---|---|---|",
    ]
    warm = {"tfos": [], "2.2.5": []}
    for case in options.case:
        rows, target, what = CASES[case]
        print(f"{case}: {what}", flush=True)
        turns = dict(
            zip(warm, in_turns([sys.executable, rival], case, rows, options.repeat), strict=True)
        )
        for side, found in turns.items():
            for runs in found:
                warm[side] += runs[1:] or runs
        ours, theirs = (list(chain(*found)) for found in turns.values())
        ratio = median(ours, "rows_per_s") / median(theirs, "rows_per_s")
        lines.append(
            f"| {what}, {rows:,} rows | {summary(ours)} | {summary(theirs)} "
            f"| **{ratio:.1f}x** | {target}x | {median(ours, 'cpu_us_per_row'):,.1f} us "
            f"| {median(theirs, 'cpu_us_per_row'):,.1f} us |"
        )

    lines += [
        "",
        "| small job | tfos | bare `foreachPartition` | ratio | to reach | CPU/row tfos | CPU/row bare |",
        "|---|---|---|---|---|---|---|",
    ]
    for case, rows in SMALL.items():
        if case not in options.case:
            continue
        print(f"small job of {case}", flush=True)
        ours = workload(sys.executable, case, rows, max(options.repeat, 5))
        ratio = median(ours["cluster"], "rows_per_s") / median(ours["bare"], "rows_per_s")
        lines.append(
            f"| {rows:,} {case} | {summary(ours['cluster'])} | {summary(ours['bare'])} | "
            f"**{ratio:.2f}** | {SMALL_RATIO} | {median(ours['cluster'], 'cpu_us_per_row'):,.1f} us | "
            f"{median(ours['bare'], 'cpu_us_per_row'):,.1f} us |"
        )

    lines += ["", "| warm | tfos | 2.2.5 | to reach |", "|---|---|---|---|"]
    for key, what, target in (
        ("startup_s", "`run()` to the first line of `map_fun`", "1.0 s"),
        ("shutdown_s", "`shutdown()` after the rows were taken", "0.5 s"),
    ):
        lines.append(
            f"| {what} | {median(warm['tfos'], key):.2f} s | "
            f"{median(warm['2.2.5'], key):.2f} s | {target} |"
        )
    report.publish(
        "compare.py", options.repeat, "Medians, with minimum and maximum.", lines, options.output
    )


if __name__ == "__main__":
    main()
