"""The Python side of ``tfos doctor``."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tfos
from tfos import _native
from tfos.base import executable
from tfos.cli import checks as checks_of
from tfos.cli import doctor
from tfos.errors import TfosError
from tfos.spark.installation import spark_home

COMPLETE = {
    "pyspark": "4.1.4",
    "tensorflow-cpu": "2.21.0",
    "keras": "3.15.1",
    "tensorboard": "2.21.0",
    "pyarrow": "22.0.0",
    "cloudpickle": "3.1.2",
    "numpy": "2.4.6",
}


def version_of(**changes):
    return {**COMPLETE, **{name.replace("_", "-"): value for name, value in changes.items()}}.get


def make_spark(path, *jars):
    for name in ("bin/spark-submit", *(f"jars/{jar}" for jar in jars)):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).touch()
    return path


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("2.15.1", checks_of.WARN),
        ("2.16.1", checks_of.OK),
        ("2.21.0", checks_of.OK),
        ("2.21.0rc1", checks_of.OK),
        ("2.22.0", checks_of.WARN),
        ("3.0", checks_of.WARN),
        (None, checks_of.FAIL),
    ],
)
def test_tensorflow_is_ok_in_the_tested_range(version, level):
    check = doctor.check_tensorflow(version_of(tensorflow_cpu=version))
    assert check.level == level
    assert bool(check.advice) == (level != checks_of.OK)


def test_advice_about_tensorflow_is_what_pip_takes():
    advice = doctor.check_tensorflow(version_of(tensorflow_cpu=None)).advice
    (quoted,) = re.findall(r'^pip install "(.*)"$', advice)
    requirement = Requirement(quoted)
    assert requirement.name == "tensorflow"
    assert list(requirement.specifier.filter(["2.15.1", "2.16.1", "2.21.0", "2.22.0"])) == [
        "2.16.1",
        "2.21.0",
    ]


def test_nodes_with_jax_or_torch_need_no_tensorflow():
    check = doctor.check_tensorflow(version_of(tensorflow_cpu=None, jax="0.11.2", torch="2.11.0"))
    assert check.level == checks_of.WARN
    assert check.found == "not installed; there is jax 0.11.2, torch 2.11.0"
    assert "keras_backend" in check.advice


@pytest.mark.parametrize(
    ("version", "level"),
    [("3.4.1", checks_of.WARN), ("3.5.0", checks_of.OK), ("4.1.4", checks_of.OK)],
)
def test_spark_is_ok_from_the_oldest_tested_one(tmp_path, version, level):
    assert doctor.check_spark(version_of(pyspark=version), make_spark(tmp_path)).level == level


@pytest.mark.parametrize(
    ("version", "level"),
    [("3.4.1", checks_of.WARN), ("3.5.1-amzn-0", checks_of.OK), ("5.0.0", checks_of.WARN)],
)
def test_a_spark_that_the_jar_does_not_fit_is_named(tmp_path, version, level):
    home = make_spark(tmp_path, f"spark-core_2.13-{version}.jar")
    for check in (
        doctor.check_jar(version_of(pyspark=version), None),
        doctor.check_jar(version_of(pyspark=None), home),
        doctor.check_jar(version_of(pyspark="4.1.4"), home),
    ):
        assert check.level == level
        assert (f"needs Spark 3.5 or 4, and this is {version}" in check.found) == bool(check.advice)
    assert doctor.check_jar(version_of(pyspark=None), None).level == checks_of.OK


def test_versions_that_were_not_run_are_told_from_those_that_were(tmp_path):
    make_spark(tmp_path)
    tested = doctor.check_tensorflow(version_of()).found
    assert tested == "2.21.0 (tensorflow-cpu)"
    assert doctor.check_tensorflow(version_of(tensorflow_cpu="2.18.0")).found.endswith(
        "tested with 2.21, and less often with 2.16 and 2.18 (docs/versions.md)"
    )
    assert "tested" not in doctor.check_spark(version_of(), tmp_path).found
    assert "tested" not in doctor.check_spark(version_of(pyspark="4.3.0"), tmp_path).found
    assert doctor.check_spark(version_of(pyspark="4.7.1"), tmp_path).found.endswith(
        "; tested with 3.5 to 4.3"
    )
    assert doctor.check_spark(version_of(pyspark="3.5.1"), tmp_path).found.endswith(
        '; format("tfrecord") needs the jar here'
    )
    assert (
        "made for 3.5 and newer, tested with 3.5 to 4.3"
        in doctor.check_spark(version_of(pyspark="3.4.1"), tmp_path).advice
    )


def test_a_spark_home_of_another_version_than_pyspark_is_a_warning(tmp_path):
    home = make_spark(tmp_path, "spark-core_2.12-3.5.0-amzn-1.jar")
    check = doctor.check_spark(version_of(), home)
    assert check.level == checks_of.WARN
    assert check.found == f"4.1.4, but SPARK_HOME={home} has Spark 3.5.0-amzn-1"
    assert "unset SPARK_HOME" in check.advice and "'JavaPackage'" in check.advice
    assert 'pip install "pyspark==3.5.*"' in check.advice
    alike = doctor.check_spark(version_of(pyspark="3.5.7"), home)
    assert alike.level == checks_of.OK
    assert alike.found.startswith(f"3.5.7, Spark 3.5.0-amzn-1 at {home}")


@pytest.mark.parametrize("place", ["python/pyspark/__init__.py", "python/lib/pyspark.zip"])
def test_the_pyspark_in_spark_home_counts_where_python_finds_that_first(tmp_path, place):
    home = make_spark(tmp_path, "spark-core_2.12-3.5.7.jar")
    file = home / place
    file.parent.mkdir(parents=True)
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("pyspark/__init__.py", "")
        entry = file
    else:
        file.touch()
        entry = file.parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "tfos.cli.doctor"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "SPARK_HOME": str(home), "PYTHONPATH": str(entry)},
    )
    (spark,) = [check for check in json.loads(done.stdout) if check["what"] == "pyspark"]
    assert spark["level"] == checks_of.OK
    assert spark["found"].startswith(f"3.5.7 at {home}")


def test_a_spark_home_without_spark_is_named(tmp_path):
    check = doctor.check_spark(version_of(), tmp_path)
    assert check.level == checks_of.FAIL and "unset SPARK_HOME" in check.advice
    assert check.found == f"SPARK_HOME={tmp_path} has no bin/spark-submit"


def test_spark_may_come_from_spark_home(tmp_path):
    make_spark(tmp_path)
    assert doctor.check_spark(version_of(pyspark=None), tmp_path).level == checks_of.OK
    assert doctor.check_spark(version_of(pyspark=None), None).level == checks_of.FAIL
    assert spark_home({"SPARK_HOME": str(tmp_path)}) == tmp_path
    assert (spark_home({}) / "jars").is_dir()


def test_the_hadoop_client_is_looked_for_as_it_looks_itself(tmp_path, monkeypatch):
    api, runtime = "hadoop-client-api-3.4.2.jar", "hadoop-client-runtime-3.4.2.jar"
    for name in ("HADOOP_HOME", "HADOOP_CONF_DIR", "HADOOP_CLASSPATH", "CONTAINER_ID"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "spark").mkdir()
    spark = make_spark(tmp_path / "spark", api)
    monkeypatch.setenv("SPARK_HOME", str(spark))
    missing = doctor.check_hadoop_client()
    assert missing.level == checks_of.WARN
    assert "hadoop-client-runtime" in missing.found and str(spark / "jars") in missing.found
    for jar in (runtime, "slf4j-api-2.0.17.jar"):
        (spark / "jars" / jar).touch()
    assert doctor.check_hadoop_client() == checks_of.Check(
        checks_of.OK, "Hadoop client", f"{spark}/jars/{api}, {spark}/jars/{runtime}"
    )
    # A Spark without Hadoop's client, and a Hadoop beside it.
    hadoop = tmp_path / "hadoop" / "share" / "hadoop" / "client"
    hadoop.parent.mkdir(parents=True)
    (spark / "jars").rename(hadoop)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "hadoop"))
    found = doctor.check_hadoop_client()
    assert found.level == checks_of.OK and str(hadoop / api) in found.found


def test_a_hadoop_configuration_must_hold_core_site(tmp_path):
    assert doctor.check_hadoop_configuration({}).level == checks_of.OK
    environ = {"HADOOP_CONF_DIR": str(tmp_path)}
    assert doctor.check_hadoop_configuration(environ).level == checks_of.WARN
    (tmp_path / "core-site.xml").touch()
    assert doctor.check_hadoop_configuration(environ).level == checks_of.OK
    home = doctor.check_hadoop_configuration({"HADOOP_HOME": str(tmp_path)})
    assert str(tmp_path / "etc" / "hadoop") in home.found


def test_an_old_python_fails():
    assert doctor.check_python((3, 10, 4)).level == checks_of.FAIL
    assert doctor.check_python((3, 11, 0)).level == checks_of.OK


def test_what_is_missing_says_how_to_get_it():
    assert doctor.check_required("numpy", version_of(numpy=None)).advice == "pip install numpy"
    assert (
        "pip install tensorboard" in doctor.check_tensorboard(version_of(tensorboard=None)).advice
    )
    assert "pip install pyarrow" in doctor.check_pyarrow(version_of(pyarrow=None)).advice
    assert doctor.check_pyarrow(version_of()).level == checks_of.OK
    assert doctor.check_keras(version_of(keras=None)).level == checks_of.WARN
    assert "tf_keras 2.21" in doctor.check_keras({"tf_keras": "2.21.0"}.get).found


def test_the_report_is_one_line_of_json_and_its_exit_code_tells_of_failures():
    process = subprocess.run(
        [sys.executable, "-m", "tfos.cli.doctor"], capture_output=True, text=True, check=False
    )
    assert process.stdout.count("\n") == 1
    checks = json.loads(process.stdout)
    assert {"Python", "pyspark", "TensorFlow", "numpy", "Hadoop client"} <= {
        check["what"] for check in checks
    }
    failed = [check for check in checks if check["level"] == checks_of.FAIL]
    assert process.returncode == bool(failed)
    (version,) = [check["found"] for check in checks if check["what"] == "tfos"]
    assert version == tfos.__version__


def test_the_ucx_that_nodes_would_use_is_named():
    # In a process of its own: what is loaded once stays.
    program = (
        "from tfos.cli import doctor; check = doctor.check_ucx(); print(check.level, check.found)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    level, version, _, file = process.stdout.split(" ", 3)
    assert level == checks_of.OK
    assert tuple(map(int, version.split(".")[:2])) >= (1, 14)
    assert Path(file.split(",")[0].strip()).name.startswith("libucp.so")


def test_a_ucx_without_infiniband_is_a_warning_only_where_there_is_some(tmp_path, monkeypatch):
    monkeypatch.setattr(_native, "find_ucx", lambda packaged: ("/x/libucp.so.0", "1.22.0", False))
    assert doctor.check_ucx("", tmp_path / "none") == checks_of.Check(
        checks_of.OK, "UCX (rdma=True)", "1.22.0 at /x/libucp.so.0, without InfiniBand and RoCE"
    )
    (tmp_path / "mlx5_0").mkdir()
    check = doctor.check_ucx("", tmp_path)
    assert check.level == checks_of.WARN and "this host has mlx5_0" in check.found
    monkeypatch.setattr(_native, "find_ucx", lambda packaged: ("/x/libucp.so.0", "1.22.0", True))
    assert doctor.check_ucx("", tmp_path).level == checks_of.OK


def test_a_ucx_that_is_too_old_says_what_to_install(monkeypatch):
    def refuse(packaged):
        raise TfosError('no UCX: /x is UCX 1.13.1: pip install "libucx-cu12>=1.22"')

    monkeypatch.setattr(_native, "find_ucx", refuse)
    check = doctor.check_ucx("")
    assert check.level == checks_of.WARN and "libucx-cu12" in check.found


@pytest.mark.parametrize(
    ("line", "level", "found"),
    [
        ("", checks_of.OK, "between hosts are encrypted"),
        ("spark.tfos.encrypt true", checks_of.OK, "All TCP connections are encrypted"),
        ("spark.tfos.encrypt=false", checks_of.WARN, "not encrypted"),
        ("spark.tfos.encrypt  sometimes", checks_of.FAIL, "spark.tfos.encrypt=sometimes"),
    ],
)
def test_what_is_encrypted_is_said(tmp_path, line, level, found):
    (tmp_path / "spark-defaults.conf").write_text(f"# spark.tfos.encrypt no\n{line}\n")
    check = doctor.check_encryption({"SPARK_CONF_DIR": str(tmp_path)})
    assert check.level == level and found in check.found


def test_nothing_imports_tensorflow_to_see_its_version():
    program = "import sys, tfos.cli.doctor; tfos.cli.doctor.all_checks(); print('tensorflow' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout == "False\n"


@pytest.mark.parametrize("module", ["cli.records", "cli.infer", "node.files", "records.files"])
def test_what_needs_pyarrow_says_so(module):
    program = f"import sys; sys.modules['pyarrow'] = None; import tfos.{module}"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    last = process.stderr.splitlines()[-1]
    assert "pip install pyarrow" in last
    if module.startswith("cli."):
        assert process.stderr.startswith(f"tfos {module.removeprefix('cli.')}: ")


def test_the_settings_are_a_table_or_json(capsys):
    from tfos.settings import SETTINGS

    assert doctor.main(["--settings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [setting.key for setting in SETTINGS]
    for line, setting in zip(lines, SETTINGS, strict=True):
        assert line.endswith(f"  {setting.meaning}")
    assert doctor.main(["--settings", "--json"]) == 0
    assert [entry["key"] for entry in json.loads(capsys.readouterr().out)] == [
        setting.key for setting in SETTINGS
    ]


def test_a_subcommand_that_is_none_is_named():
    done = subprocess.run([executable.path(), "frob"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    said, _, subcommands = done.stderr.partition("; there are: ")
    assert said == "tfos: 'frob' is not a subcommand"
    assert {"doctor", "infer", "records", "tensorboard"} <= set(subcommands.split())


def test_the_executable_reports_host_and_python():
    process = subprocess.run(
        [executable.path(), "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(doctor.__file__).parents[1]),
        },
    )
    lines = process.stdout.splitlines()
    assert process.stderr == ""
    assert all(line.startswith(("ok    ", "WARN  ", "FAIL  ")) for line in lines)
    text = process.stdout
    assert "feed memory: memfd" in text and "TensorFlow: 2." in text and "Java: " in text
    assert process.returncode == any(line.startswith("FAIL") for line in lines)


def test_the_executable_fails_without_tfos_in_python(tmp_path):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho 'No module named tfos' >&2\nexit 1\n")
    python.chmod(0o755)
    process = subprocess.run(
        [executable.path(), "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYSPARK_PYTHON": str(python)},
    )
    assert process.returncode == 1
    (failed,) = [check for check in json.loads(process.stdout) if check["level"] == "fail"]
    assert "No module named tfos" in failed["found"] and str(python) in failed["advice"]


def rpc_of(directory, text):
    (directory / "spark-defaults.conf").write_text(text)
    return doctor.check_rpc_of_defaults({"SPARK_CONF_DIR": str(directory)}, version_of())


def test_sparks_rpc_is_checked_as_its_defaults_have_it(tmp_path):
    open_to_all = rpc_of(tmp_path, "# of the cluster\nspark.master   spark://h:7077\n")
    assert open_to_all.level == checks_of.WARN
    assert "not authenticated, not encrypted" in open_to_all.found
    assert "spark.authenticate.secret" in open_to_all.advice
    protected = rpc_of(
        tmp_path,
        "spark.master=yarn\nspark.authenticate : true\nspark.network.crypto.enabled\ttrue\n",
    )
    assert (protected.level, protected.advice) == (checks_of.OK, "")
    assert str(tmp_path / "spark-defaults.conf") in protected.found
    assert rpc_of(tmp_path, "spark.master local[4]\n").level == checks_of.OK
    # A program that names no master may run on one host alone.
    unknown = rpc_of(tmp_path, "spark.authenticate true\nnonsense\n")
    assert unknown.level == checks_of.OK
    assert "authenticated, not encrypted" in unknown.found


def test_without_defaults_each_application_decides(tmp_path):
    check = doctor.check_rpc_of_defaults({"SPARK_CONF_DIR": str(tmp_path)}, version_of())
    assert (check.level, check.advice) == (checks_of.OK, "")
    assert "no spark-defaults.conf" in check.found
