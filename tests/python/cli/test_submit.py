"""`tfos submit`: the command that it runs, and the archive of the Python environment."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import tarfile

import pytest

from tfos.base import executable
from tfos.cli import python_archive, submit
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.spark import jar

HOME = pathlib.Path("/spark")
PYTHON = "/env/bin/python"


def planned(*words, archive=None, jar=None, files=None):
    request = submit.parse(list(words))
    conf = {**(files or {}), **request.conf()}
    for option, key in (("--master", "spark.master"), ("--deploy-mode", "spark.submit.deployMode")):
        if request.option(option):
            conf[key] = request.option(option)
    return submit.command(request, HOME, conf, archive, jar, PYTHON)


def confs(words):
    return dict(word.split("=", 1) for flag, word in zip(words, words[1:]) if flag == "--conf")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, which has a program p.py."""
    (tmp_path / "p.py").write_text("")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("program", ["hdfs://h/p.py", "local:/opt/p.py", "s3a://b/p.py"])
def test_programs_elsewhere_are_left_to_spark(program, capsys):
    assert submit.main(["--dry-run", "--master", "yarn", "--no-env", program]) == 0
    assert capsys.readouterr().out.split()[-1] == program


def test_what_fails_before_spark_runs_is_no_wrong_command_line(monkeypatch, capsys, here):
    monkeypatch.setattr(submit, "spark_home", lambda environ: None)
    assert submit.main(["p.py"]) == 1
    assert "Spark was not found" in capsys.readouterr().err


def test_a_spark_home_without_spark_is_named_before_anything_is_packed(
    environment, tmp_path, monkeypatch, capsys, here
):
    monkeypatch.setenv("SPARK_HOME", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert submit.main(["--master", "yarn", "--python-env", str(environment), "p.py"]) == 1
    assert "/nowhere has no bin/spark-submit: set SPARK_HOME" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_it_runs_in_its_own_python_whatever_the_executors_have(here):
    done = subprocess.run(
        [executable.path(), "submit", "--dry-run", "--master", "yarn", "p.py"],
        env={**os.environ, "PYSPARK_PYTHON": "/executors/python"},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "p.py" and "--archives" not in done.stdout


def test_options_of_spark_and_arguments_of_the_program_pass_unchanged():
    given = ["--master", "spark://h:7077", "--verbose", "--conf", "a=b=c", "--name", "my job"]
    program = ["train.py", "--python-env", "x", "--conf", "y=z", "--dry-run"]
    words = planned("--dry-run", *given, *program)
    assert words[0] == "/spark/bin/spark-submit"
    assert words[1 : 1 + len(given)] == given
    assert words[-len(program) :] == program
    assert submit.parse(["--name=my job", "-c", "a=b", "p.py"]).options == [
        ("--name", "my job"),
        ("--conf", "a=b"),
    ]


def test_an_empty_value_is_one_as_for_spark_submit():
    """Scripts pass `--queue "$QUEUE"`."""
    empty = ["--driver-java-options", "", "--py-files", ""]
    assert planned(*empty, "p.py")[1:5] == empty
    words = planned("--jars", "", "p.py", jar="/tfos.jar", files={"spark.jars": "other.jar"})
    assert words[words.index("--jars") + 1] == "/tfos.jar"


def test_in_client_mode_only_executors_take_the_packed_python():
    words = planned("--master", "yarn", "p.py", archive="/cache/e.tar.gz")
    assert words[words.index("--archives") + 1] == "/cache/e.tar.gz#environment"
    assert confs(words)["spark.pyspark.python"] == "./environment/bin/python"
    assert confs(words)["spark.pyspark.driver.python"] == PYTHON


def test_in_cluster_mode_the_driver_takes_it_too():
    words = planned(
        "--master", "yarn", "--deploy-mode", "cluster", "p.py", archive="hdfs:///e.tar.gz"
    )
    assert confs(words)["spark.pyspark.python"] == "./environment/bin/python"
    assert "spark.pyspark.driver.python" not in confs(words)


def test_without_an_archive_hosts_have_this_python_or_the_one_that_is_named():
    assert confs(planned("--master", "spark://h:1", "p.py")) == {"spark.pyspark.python": PYTHON}
    named = {"spark.pyspark.python": "/usr/bin/python3"}
    assert confs(planned("--master", "spark://h:1", "p.py", files=named)) == {}


def test_what_is_added_to_a_list_does_not_replace_the_users():
    words = planned(
        "--jars",
        "a.jar",
        "--archives=b.zip",
        "p.py",
        archive="e.tgz",
        jar="/tfos.jar",
        files={"spark.jars": "ignored.jar"},
    )
    assert words.count("--jars") == words.count("--archives") == 1
    assert words[words.index("--jars") + 1] == "a.jar,/tfos.jar"
    assert words[words.index("--archives") + 1] == "b.zip,e.tgz#environment"
    words = planned("p.py", archive="/my cache/e%20.tgz")
    assert words[words.index("--archives") + 1] == "/my%20cache/e%20.tgz#environment"
    words = planned("p.py", jar="/tfos.jar", files={"spark.jars": "c.jar"})
    assert words[words.index("--jars") + 1] == "c.jar,/tfos.jar"


PODS = ["--master", "k8s://https://h", "--deploy-mode", "cluster"]


def dry(capsys, *words):
    """What is added, and the list of jars, of a dry run that succeeds."""
    assert submit.main(["--dry-run", *words]) == 0
    line = capsys.readouterr().out.split()
    return confs(line), [jars for flag, jars in zip(line, line[1:]) if flag == "--jars"]


def test_pods_of_an_image_have_its_python_and_its_jar(capsys, monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(jar, "path", lambda: "/tfos.jar")
    program = ["--no-env", "local:///p.py"]
    assert dry(capsys, *PODS, *program) == ({"spark.executor.memoryOverhead": "2g"}, [])
    assert dry(capsys, *PODS, "--jars", "local:///a.jar", *program)[1] == ["local:///a.jar"]
    # The driver is a pod of the same image, or has its Python at the same path.
    added, jars = dry(capsys, *PODS[:2], *program)
    assert added["spark.pyspark.python"] == sys.executable and jars == ["/tfos.jar"]
    added, jars = dry(capsys, "--master", "yarn", *PODS[2:], *program)
    assert added["spark.pyspark.python"] == sys.executable and jars == ["/tfos.jar"]


UPLOADS = ["--conf", "spark.kubernetes.file.upload.path=s3a://b/uploads"]


@pytest.mark.parametrize(
    "options, refused",
    [
        (["--python-env", "/e.tar.gz"], "/e.tar.gz"),
        (["--python-env", "file:///e.tar.gz"], "file:///e.tar.gz"),
        (["--python-env", "/e.tar.gz", *UPLOADS], None),
        (["--python-env", "s3a://b/e.tar.gz"], "/tfos.jar"),
        (["--python-env", "local:///e.tar.gz", "--no-jar"], None),
    ],
)
def test_what_pods_could_not_read_is_refused(options, refused, capsys, monkeypatch):
    monkeypatch.setattr(jar, "path", lambda: "/tfos.jar")
    words = ["--dry-run", *PODS, *options, "local:///p.py"]
    assert submit.main(words) == (2 if refused else 0)
    said = capsys.readouterr().err
    if refused:
        assert f"can't read {refused} of this host: set spark.kubernetes.file.upload.path" in said


def test_nothing_is_packed_that_pods_could_not_read(environment, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert submit.main([*PODS, "--python-env", str(environment), "local:///p.py"]) == 2
    assert "spark.kubernetes.file.upload.path" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("options, has_jar", [([], True), (["--no-jar"], False)])
def test_the_jar_can_be_left_out_as_java_8_needs(options, has_jar, capsys, here, monkeypatch):
    monkeypatch.setattr(jar, "path", lambda: "/tfos/tfos_2.13-1.jar")
    assert submit.main([*options, "--dry-run", "--jars", "a.jar", "p.py"]) == 0
    words = capsys.readouterr().out.split()
    assert words[words.index("--jars") + 1] == ",".join(
        ["a.jar", *["/tfos/tfos_2.13-1.jar"] * has_jar]
    )
    assert "--no-jar" not in words and submit.options()["--no-jar"] is False


@pytest.mark.parametrize(
    "conf, overhead",
    [
        ({"spark.master": "yarn"}, "2g"),
        ({"spark.master": "k8s://https://h"}, "2g"),
        ({"spark.master": "spark://h:1"}, None),
        ({"spark.master": "yarn", "spark.executor.memoryOverhead": "5g"}, None),
        ({"spark.master": "yarn", "spark.executor.memoryOverheadFactor": "0.9"}, None),
    ],
)
def test_containers_have_room_for_a_node(conf, overhead):
    assert confs(planned("p.py", files=conf)).get("spark.executor.memoryOverhead") == overhead


def test_secrets_are_not_shown():
    shown = submit.redacted(
        [
            "spark-submit",
            "--conf",
            "spark.hadoop.fs.s3a.secret.key=SECRET",
            "--conf=spark.ssl.keyPassword=SECRET",
            "p.py",
            "--api-token",
            "SECRET",
            "--password=SECRET",
            "s3a://user:SECRET@bucket/x",
            "--rows",
            "5",
        ]
    )
    assert "SECRET" not in shown
    assert "spark.hadoop.fs.s3a.secret.key" in shown and "bucket/x --rows 5" in shown
    shown = submit.redacted(
        [
            "--conf",
            "spark.hadoop.fs.azure.account.key.me.blob.core.windows.net=SECRET",
            "--passw=SECRET",
            "--api-key",
            "SECRET",
            "--auth_key=SECRET",
            "abfs://container@account.dfs.core.windows.net/x",
        ]
    )
    assert "SECRET" not in shown
    assert "abfs://container@account.dfs.core.windows.net/x" in shown


@pytest.mark.parametrize(
    "words, shown",
    [
        (
            ["--conf", 'spark.executorEnv.TFOS_HADOOP_PROPERTIES={"fs.s3a.secret.key": "K"}'],
            "--conf spark.executorEnv.TFOS_HADOOP_PROPERTIES=REDACTED",
        ),
        (
            ["--conf", "spark.executorEnv.X={'a': 'K=1', 'b.token': 'K'}"],
            "--conf spark.executorEnv.X=REDACTED",
        ),
        (
            ["--conf", "spark.hadoop.fs.s3a.encryption.key=K"],
            "--conf spark.hadoop.fs.s3a.encryption.key=REDACTED",
        ),
        (
            ["--conf", "spark.hadoop.fs.azure.sas.rows.logs.blob.core.windows.net=K"],
            "--conf spark.hadoop.fs.azure.sas.rows.logs.blob.core.windows.net=REDACTED",
        ),
        (["--token=K=K", "5"], "--token=REDACTED 5"),
        (["X-Auth-Token: K", "5"], "X-Auth-Token:REDACTED 5"),
        (["X-Auth-Token: K=K"], "X-Auth-Token:REDACTED"),
        (['{"fs.azure.account.key.x": "K=="}'], """'{"fs.azure.account.key.x":REDACTED'"""),
        (["https://me:K@K@host/x", "5"], "https://me:REDACTED@host/x 5"),
        (["hdfs://nn:8020/tokens/p.py", "a=5"], "hdfs://nn:8020/tokens/p.py a=5"),
    ],
)
def test_nothing_of_a_value_with_a_secret_in_it_is_shown(words, shown):
    assert submit.redacted(words) == shown


def test_a_secret_in_a_file_of_properties_is_not_shown(capsys, here):
    pathlib.Path("mine.conf").write_text("spark.hadoop.fs.s3a.secret.key SECRET\n")
    assert submit.main(["--properties-file", "mine.conf", "--dry-run", "p.py"]) == 0
    shown = capsys.readouterr()
    assert "mine.conf" in shown.out and "SECRET" not in shown.out + shown.err


@pytest.mark.parametrize("named", [True, False])
def test_a_file_of_properties_need_not_be_utf_8(named, capsys, here, monkeypatch):
    """As Spark reads it: a comment of an editor that wrote Latin-1 is a comment."""
    file = pathlib.Path("mine.conf" if named else "spark-defaults.conf").resolve()
    file.write_bytes("# für alle\nspark.master yarn\n".encode("latin-1"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(file.parent))
    words = ["--properties-file", str(file)] if named else []
    assert submit.main([*words, "--no-env", "--dry-run", "p.py"]) == 0
    assert "spark.executor.memoryOverhead=2g" in capsys.readouterr().out


def test_keys_that_programs_read_are_no_misspelt_settings():
    submit.check_settings({"spark.tfos.parameterServers": "1", "spark.tensorflow.num.ps": "1"})


@pytest.mark.parametrize(
    "words, message",
    [
        (["--master", "yarn"], "which program"),
        (["--master"], "--master needs a value"),
        (["--python-env", "", "p.py"], "--python-env needs a value"),
        (["--env-directory=", "--no-jar", "p.py"], "--env-directory needs a value"),
        (["--no-env", "--python-env", "x", "p.py"], "--no-env packs nothing"),
        (["--master", "spark://h:1", "--deploy-mode", "cluster", "p.py"], "client only"),
        (["--conf", "spark.tfos.feed.memry=1", "p.py"], "is spark.tfos.feed.memory meant"),
        (["--conf", "spark.tfos.feed.memory=many", "p.py"], "expected a size"),
        (["--master", "yarn", "--python-env", "/nowhere", "p.py"], "not a virtual environment"),
        (["--master", "yarn", "nofile.py"], "there is no file nofile.py"),
        (["--conf", "spark.tfos.gpu.fraction=2", "p.py"], "too large"),
        (["--conf", "spark.tfos.log.level=LOUD", "p.py"], "spark.tfos.log.level must be all,"),
        (["--conf", "spark.tfos.ports=abc", "p.py"], "expected a port"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(words, message, capsys, monkeypatch, here):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert submit.main([*words[:-1], "--dry-run", words[-1]] if len(words) > 2 else words) == 2
    assert message in capsys.readouterr().err


def test_the_configuration_is_files_then_conf_then_options(tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# comment\nspark.master   yarn\nspark.submit.deployMode=cluster\nspark.jars: a.jar\n"
    )
    request = submit.parse(["--conf", "spark.jars=b.jar", "--deploy-mode", "client", "p.py"])
    conf = submit.configuration(request, HOME, {"SPARK_CONF_DIR": str(tmp_path)})
    assert conf == {
        "spark.master": "yarn",
        "spark.submit.deployMode": "client",
        "spark.jars": "b.jar",
    }
    variables = {"SPARK_CONF_DIR": str(tmp_path), "MASTER": "local[2]", "DEPLOY_MODE": "client"}
    conf = submit.configuration(submit.parse(["p.py"]), HOME, variables)
    assert conf["spark.master"] == "yarn" and conf["spark.submit.deployMode"] == "cluster"
    conf = submit.configuration(
        submit.parse(["p.py"]), HOME, {"MASTER": "yarn", "DEPLOY_MODE": "cluster"}
    )
    assert conf == {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    (tmp_path / "mine.conf").write_text("spark.jars d.jar\n")
    file = ["--properties-file", str(tmp_path / "mine.conf")]
    conf = submit.configuration(
        submit.parse([*file, "p.py"]), HOME, {"SPARK_CONF_DIR": str(tmp_path)}
    )
    assert conf == {"spark.jars": "d.jar"}
    request = submit.parse(["--load-spark-defaults", *file, "p.py"])
    conf = submit.configuration(request, HOME, {"SPARK_CONF_DIR": str(tmp_path)})
    assert conf == {
        "spark.master": "yarn",
        "spark.submit.deployMode": "cluster",
        "spark.jars": "d.jar",
    }


@pytest.fixture
def environment(tmp_path):
    """A virtual environment whose tfos is a file of one line."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    packages(tmp_path / "env").joinpath("tfos.py").write_text("origin = __file__\n")
    return tmp_path / "env"


def packages(environment):
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def test_a_packed_environment_works_where_it_is_unpacked(environment, tmp_path):
    python_archive.check(environment)
    archive = tmp_path / "cache" / python_archive.name_of(environment)
    python_archive.pack(environment, archive)
    unpacked = tmp_path / "container" / "environment"
    unpacked.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive, "-C", unpacked], check=True)
    done = subprocess.run(
        ["./environment/bin/python", "-c", "import sys, tfos; print(sys.executable, tfos.origin)"],
        cwd=unpacked.parent,
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.split() == [
        str(unpacked / "bin" / "python"),
        str(packages(unpacked) / "tfos.py"),
    ]
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_an_archive_is_for_this_user_alone_and_without_passwords_of_pip(environment, tmp_path):
    archive = tmp_path / "cache" / python_archive.name_of(environment)
    (environment / "pip.conf").write_text("index-url = https://user:password@index/\n")
    (packages(environment) / "pip.conf").write_text("of a package, which may need it")
    assert python_archive.name_of(environment) != archive.name, "the package's counts"
    python_archive.pack(environment, archive)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert stat.S_IMODE(archive.parent.stat().st_mode) == 0o700
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert "pyvenv.cfg" in names
    assert "pip.conf" not in names
    assert [name for name in names if name.endswith("/pip.conf")] != []


def test_an_archive_is_named_by_the_content(environment):
    name = python_archive.name_of(environment)
    assert python_archive.name_of(
        environment.rename(environment.with_name(".my env#1"))
    ).startswith("my-env-1-")
    environment.with_name(".my env#1").rename(environment)
    module = packages(environment) / "tfos.py"
    os.utime(module, (0, 0))
    subprocess.run([environment / "bin" / "python", "-c", "import tfos"], env={}, check=True)
    assert list(packages(environment).glob("__pycache__/*.pyc"))
    assert python_archive.name_of(environment) == name
    module.write_text("origin = 0\n")
    assert python_archive.name_of(environment) != name


def test_the_second_submission_packs_nothing(environment, tmp_path, monkeypatch, capsys, here):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    commands = []
    monkeypatch.setattr(os, "execve", lambda _, words, _environ: commands.append(words))
    words = [
        "--master",
        "yarn",
        "--python-env",
        str(environment),
        "--env-directory",
        str(tmp_path / "shared"),
        "p.py",
    ]
    assert submit.main(["--dry-run", *words]) == 0
    assert not (tmp_path / "cache").exists() and not (tmp_path / "shared").exists()
    dry = capsys.readouterr().out
    for _ in range(2):
        submit.main(words)
    assert commands[0] == commands[1]
    assert submit.redacted(commands[0]) == dry.strip()
    said = capsys.readouterr().err
    assert said.count("packing") == said.count("uploading") == 1
    (archive,) = (tmp_path / "shared").iterdir()
    assert f"{archive}#environment" in commands[0]


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda env: packages(env).joinpath("tfos.py").unlink(), "can't import tfos"),
        (lambda env: (env / "pyvenv.cfg").unlink(), "conda-pack"),
        (lambda env: editable(packages(env)).write_text("{"), "direct_url.json"),
        (lambda env: editable(packages(env)), "installed editable"),
        (lambda env: (env / "bin/python").unlink(), "python can't be run .No such file"),
    ],
)
def test_what_would_not_work_on_the_cluster_is_not_packed(environment, spoil, message):
    spoil(environment)
    with pytest.raises(BadInputError, match=message):
        python_archive.check(environment)


def editable(directory):
    (directory / "mine-1.dist-info").mkdir()
    origin = directory / "mine-1.dist-info" / "direct_url.json"
    origin.write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    return origin


def test_two_first_uploads_at_once_are_one(tmp_path, monkeypatch):
    archive = tmp_path / "e.tar.gz"
    archive.write_bytes(b"packed")
    shared = tmp_path / "shared"
    access = type(access_for(str(shared))[0])

    def rename(_self, source, _target):
        (shared / archive.name).write_bytes(b"packed")  # the other one was faster
        raise FileExistsError(source)

    monkeypatch.setattr(access, "rename", rename)
    assert python_archive.upload(archive, str(shared), lambda _: None) == str(shared / archive.name)
    assert [path.name for path in shared.iterdir()] == [archive.name]


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 1000650000)
    with pytest.raises(BadInputError, match="1000650000 has no home .* set XDG_CACHE_HOME"):
        submit._cache({})
