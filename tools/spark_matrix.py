#!/usr/bin/env python3
"""Tries tfos with each version of Spark that it is made for, and writes docs/versions.md.

    python tools/spark_matrix.py [--only 3.5.7,4.0.1] [--cases NAME,...] [--page FILE]

For each version a virtual environment in build/versions gets that PySpark, from PyPI, in front of
all that .venv has. tools/spark_matrix_program.py runs in it twice, with the jar and without. `make
test-matrix` runs it. `make test` doesn't, as it takes a long time and downloads 1.6 GB.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.5.7", "4.0.1", "4.1.4", "4.2.1", "4.3.0")
ENVIRONMENTS = ROOT / "build" / "versions"
PAGE = ROOT / "docs" / "versions.md"
PROGRAM = ROOT / "tools" / "spark_matrix_program.py"
TIMEOUT_SECONDS = 900
#: What a run with the jar does: cases that take another way there.
WITH_JAR = (
    "feed_rdd",
    "feed_dataframe",
    "fit",
    "transform",
    "save_tfrecords",
    "old_programs",
    "format_tfrecord",
)
#: Cases that a version can't have, and the part of the message that says why.
REFUSED = {
    ("3.5", False, "format_tfrecord"): "needs Spark 4.0 or newer",
}
SHOWN = {
    "feed_rdd": "`cluster.train` of an RDD",
    "feed_dataframe": "`cluster.train` of a DataFrame",
    "fit": "`model.fit` on two nodes, `export`",
    "inference": "`cluster.inference`",
    "transform": "`tfos.ml.Model.transform`",
    "ml_pipeline": "`tfos.ml.Estimator` in a pipeline, saved and loaded",
    "instances": "`tfos.parallel.run`",
    "save_tfrecords": "`tfos.save_tfrecords`",
    "old_programs": "`dfutil` of tensorflowonspark",
    "format_tfrecord": '`format("tfrecord")`',
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default=",".join(VERSIONS), help="versions, by commas")
    parser.add_argument("--cases", default="", help="cases, by commas; empty: all")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    for version in options.only.split(","):
        python = environment(version)
        for with_jar in (False, True):
            run(python, version, with_jar, options.cases)
    reports = found_reports()
    failed = [
        f"{name}: {case}: {text}"
        for name, report in reports.items()
        for case, text in report["cases"].items()
        if verdict(name, case, text) == "fails"
    ]
    options.page.write_text(page(reports))
    print("\n".join(failed) or f"All is as it should be; see {options.page}")
    return 1 if failed else 0


def environment(version):
    """The Python that has this PySpark, made if there is none yet."""
    if version == importlib.metadata.version("pyspark"):
        return Path(sys.executable)
    home = ENVIRONMENTS / version
    python = home / "bin" / "python"
    done = home / "done"
    if done.exists():
        return python
    print(f"Installing PySpark {version} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    locked = ROOT / "tools" / "locked" / f"pyspark-{version}.txt"
    # A version that is tried by hand has no hashes there.
    wanted = ["--require-hashes", "-r", locked] if locked.exists() else [f"pyspark=={version}"]
    subprocess.run([*pip, *wanted], check=True)
    found = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    # Behind its own packages come those of the environment that runs this, with tfos.
    (Path(found) / "project.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    )
    done.touch()
    return python


def results_of(version, with_jar):
    return ENVIRONMENTS / f"{version}{'-jar' if with_jar else ''}.json"


def found_reports():
    """What the program found out, by the version and " jar": in this run or in an earlier one."""
    reports = {}
    for version in VERSIONS:
        for with_jar in (False, True):
            results = results_of(version, with_jar)
            if results.exists():
                reports[f"{version}{' jar' if with_jar else ''}"] = json.loads(results.read_text())
    return reports


def run(python, version, with_jar, cases):
    """Runs the program. Where it says nothing, it failed as a whole."""
    results = results_of(version, with_jar)
    results.unlink(missing_ok=True)
    cases = cases or (",".join(WITH_JAR) if with_jar else "")
    command = [python, PROGRAM, results, "--only", cases, *(["--jar"] if with_jar else [])]
    print(f"PySpark {version}, {'with' if with_jar else 'without'} the jar:", flush=True)
    # Another Spark must not get in front of the one that is tried.
    environ = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    log = results.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, env=environ
        )
        try:
            for line in process.stdout:
                print(f"  {line}", end="", flush=True)
            process.wait(TIMEOUT_SECONDS)
        finally:
            process.kill()
    if not results.exists():
        raise SystemExit(f"PySpark {version}: the program ended with {process.returncode}: {log}")


def verdict(name, case, text):
    """What the page says: ok, refused where that is right, fails, or "" where nothing was run."""
    version, _, jar = name.partition(" ")
    expected = REFUSED.get((".".join(version.split(".")[:2]), bool(jar), case))
    if text is None:
        return ""
    if expected is not None:
        return "refused" if expected in text else "fails"
    return "ok" if text == "ok" else "fails"


def page(reports):
    """The page of docs."""
    names = list(reports)
    lines = [
        "# Versions of Spark",
        "",
        "What was run with which version of Spark, each on two executors of one machine "
        "(`local-cluster[2,1,1024]`). `make test-matrix` installs each PySpark from PyPI, runs the "
        "cases of [tools/spark_matrix_program.py](../tools/spark_matrix_program.py), and writes "
        "this page.",
        "",
        table(["", *(shown(name) for name in names)]),
        table(["---"] * (len(names) + 1)),
    ]
    for case, title in SHOWN.items():
        found = (verdict(name, case, reports[name]["cases"].get(case)) for name in names)
        lines.append(table([title, *found]))
    lines += [
        "",
        '"refused": this version lacks what it takes, and the error says what to do instead. '
        "An empty field: not run with the jar, only without it.",
        "",
        "## What they ran with",
        "",
    ]
    first = reports[names[0]]["versions"]
    lines += [table(["run on", *first]), table(["---"] * (len(first) + 1))]
    for name, report in reports.items():
        if " " not in name:
            lines.append(table([report["date"], *report["versions"].values()]))
    lines += ["", "## The jar", "", table(["Spark", "the jar"]), table(["---", "---"])]
    for name, report in reports.items():
        if " " in name:
            lines.append(table([name.partition(" ")[0], report["jar"]]))
    return "\n".join([*lines, ""])


def shown(name):
    version, _, jar = name.partition(" ")
    return f"{version}, jar" if jar else version


def table(cells):
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


if __name__ == "__main__":
    sys.exit(main())
