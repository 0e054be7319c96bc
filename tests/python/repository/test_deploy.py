"""The image and the manifests for Kubernetes: their fields are those of Kubernetes and of the Spark
operator, as the packages with their schemas know them, and the image's scripts start what they should."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import kubeflow_spark_api.models as operator
import kubernetes_validate
import pydantic
import pytest
import yaml

from support.places import ROOT
from support.waiting import wait_for
from tfos.spark import rpc_security

IMAGE = ROOT / "deploy/image"
MANIFESTS = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
KUBERNETES = "1.34"
OF_OPERATOR = {
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): operator.SparkV1beta2SparkApplication,
    ("sparkoperator.k8s.io/v1alpha1", "SparkConnect"): operator.SparkV1alpha1SparkConnect,
}


def documents():
    for manifest in MANIFESTS:
        for document in yaml.safe_load_all(manifest.read_text()):
            yield pytest.param(document, id=f"{manifest.name}-{document['kind']}")


def check(document):
    """Raises where Kubernetes or the operator would refuse the document or not know a field of it."""
    model = OF_OPERATOR.get((document["apiVersion"], document["kind"]))
    if model is None:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        return
    known = model.from_dict(document).to_dict()
    assert known == document, "the operator does not know a field"


@pytest.mark.parametrize("document", list(documents()))
def test_a_manifest_fits_its_schema(document):
    check(document)


@pytest.mark.parametrize("document", list(documents()))
def test_a_field_that_is_misspelt_or_of_another_type_does_not_fit(document):
    misspelt = {**document, "metadata": {**document["metadata"]}, "speck": {}}
    with pytest.raises((AssertionError, kubernetes_validate.ValidationError)):
        check(misspelt)
    if (document["apiVersion"], document["kind"]) in OF_OPERATOR:
        executor = {**document["spec"]["executor"], "cores": "many"}
        with pytest.raises(pydantic.ValidationError):
            check({**document, "spec": {**document["spec"], "executor": executor}})


def test_all_of_the_operators_kinds_are_there():
    kinds = {document.values[0]["kind"] for document in documents()}
    assert {"SparkApplication", "SparkConnect", "Job"} <= kinds


def spark_settings():
    """(where, settings of Spark) of all manifests, and of the command of the page about them."""
    for document in (parameter.values[0] for parameter in documents()):
        where, spec = document["kind"], document.get("spec", {})
        if "sparkConf" in spec:
            yield where, spec["sparkConf"]
        elif where == "Job":
            (container,) = spec["template"]["spec"]["containers"]
            words = (word.removeprefix("--conf=") for word in container["args"])
            yield where, dict(word.split("=", 1) for word in words if word.startswith("spark."))
    page = (ROOT / "docs/kubernetes.md").read_text()
    yield "kubernetes.md", dict(re.findall(r"--conf (spark\.[\w.]+)=(\S+)", page))


def test_the_drivers_container_keeps_the_images_process_1():
    jobs = [d.values[0] for d in documents() if d.values[0]["kind"] == "Job"]
    for container in (c for job in jobs for c in job["spec"]["template"]["spec"]["containers"]):
        assert "command" not in container, "it would take the place of the entry point, and of tini"


def test_the_drivers_name_is_known_while_its_pod_ends():
    services = [d.values[0] for d in documents() if d.values[0]["kind"] == "Service"]
    assert [s["spec"]["publishNotReadyAddresses"] for s in services] == [True]


def test_spark_authenticates_and_encrypts_as_docs_security_asks():
    found = dict(spark_settings())
    assert set(found) == {"Job", "SparkApplication", "SparkConnect", "kubernetes.md"}
    for where, settings in found.items():
        security = rpc_security.rpc_security(settings.get, "k8s://https://h", "4.1.4")
        assert security.protected, f"{where}: {security.advice}"


def containers(document):
    """What starts containers, with its securityContext."""
    spec = document.get("spec", {})
    match document["kind"]:
        case "Job":
            return spec["template"]["spec"]["containers"]
        case "SparkApplication":
            return [spec["driver"], spec["executor"]]
        case "SparkConnect":
            parts = [spec["server"], spec["executor"]]
            return [c for part in parts for c in part["template"]["spec"]["containers"]]
    return []


def test_no_container_is_or_becomes_root():
    contexts = [c["securityContext"] for d in documents() for c in containers(d.values[0])]
    assert len(contexts) == 5
    for context in contexts:
        assert context["allowPrivilegeEscalation"] is False and context["runAsNonRoot"] is True
        assert context.get("runAsUser", 185) == 185
    instructions = (IMAGE / "Dockerfile").read_text().splitlines()
    assert [line for line in instructions if line.startswith("USER")] == ["USER 185"]


def run_instruction(word):
    """The Dockerfile's RUN with a word in it, as one line."""
    lines = (IMAGE / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    (command,) = [line for line in lines if line.startswith("RUN") and word in line]
    return command.removeprefix("RUN ")


def test_no_program_of_the_image_changes_its_user(tmp_path):
    """Runs the Dockerfile's own command, over another folder."""
    for name, mode in {"su": 0o4755, "chage": 0o2755, "sh": 0o755}.items():
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (command,) = [c for c in run_instruction("chmod a-s").split("&&") if "chmod a-s" in c]
    subprocess.run(command.replace("find /", f"find {tmp_path}"), shell=True, check=True)
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()} == {0o755}


@pytest.mark.parametrize(
    ("machine", "asked", "installed"),
    [
        ("x86_64", "", "tensorflow-cpu==2.21.*"),
        ("aarch64", "", "tensorflow==2.21.*"),
        ("aarch64", "tensorflow==2.20.*", "tensorflow==2.20.*"),
        ("x86_64", "tensorflow[and-cuda]==2.21.*", "tensorflow[and-cuda]==2.21.*"),
    ],
)
def test_the_image_has_a_tensorflow_that_its_processor_has(tmp_path, machine, asked, installed):
    """Runs the Dockerfile's own command, where uname, python3 and pip only say something."""
    lines = (IMAGE / "Dockerfile").read_text().splitlines()
    defaults = [line.split()[1] for line in lines if line.startswith("ARG") and "=" in line]
    variables = {**dict(word.split("=", 1) for word in defaults), "PATH": f"{tmp_path}/bin:/bin"}
    if asked:
        variables["TENSORFLOW"] = asked
    (tmp_path / "bin").mkdir()
    says = {"uname": f"echo {machine}", "python3": "true", "pip": 'printf "%s\\n" "$@"'}
    for name, body in says.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-ec", run_instruction("TENSORFLOW").replace("/opt/tfos", str(tmp_path))],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert [word for word in done.stdout.split() if "tensorflow" in word] == [installed]


@pytest.fixture
def in_image(tmp_path):
    """A function that runs a script of the image, where tini, java and spark-submit say how they were
    called."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    for name in ("tini", "java", "spark-submit"):
        command = home / "bin" / name
        command.write_text(f'#!/bin/sh\nfor word in {name} "$@"; do printf "%s\\n" "$word"; done\n')
        command.chmod(0o755)

    def run(script, *arguments, **variables):
        path = f"{home}/bin:{os.environ['PATH']}"
        found = subprocess.run(
            [IMAGE / script, *arguments],
            env={"PATH": path, "SPARK_HOME": str(home), **variables},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return found.stdout.replace(str(home), "HOME").splitlines()

    return run


def test_a_driver_pod_submits_its_program(in_image):
    words = in_image(
        "entrypoint.sh", "driver", "--class", "A", "x y", SPARK_DRIVER_BIND_ADDRESS="10.0.0.1"
    )
    assert words == [
        *["tini", "-s", "--", "HOME/bin/spark-submit"],
        *["--conf", "spark.driver.bindAddress=10.0.0.1", "--deploy-mode", "client"],
        *["--class", "A", "x y"],
    ]


@pytest.mark.parametrize(
    ("hadoop", "classpath"),
    [
        ({}, "HOME/jars/*"),
        (
            {"HADOOP_CONF_DIR": "/opt/hadoop/conf", "SPARK_DIST_CLASSPATH": "/hadoop/jars/*"},
            "/opt/hadoop/conf:HOME/jars/*:/hadoop/jars/*",
        ),
    ],
)
def test_an_executor_pod_is_what_spark_says_in_variables(in_image, hadoop, classpath):
    of_executor = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    words = in_image(
        "entrypoint.sh",
        "executor",
        **{variable: f"of {variable}" for variable in of_executor.values()},
        SPARK_EXECUTOR_MEMORY="2g",
        SPARK_JAVA_OPT_0="-Dfirst=a b",
        SPARK_JAVA_OPT_1="-Dsecond=",
        SPARK_JAVA_OPT_3="-Dafter-a-gap",
        SPARK_CLASSPATH="/more/*",
        **hadoop,
    )
    assert words == [
        *["tini", "-s", "--", "java", "-Dfirst=a b", "-Dsecond=", "-Xms2g", "-Xmx2g"],
        *["-cp", f"/more/*:HOME/conf:{classpath}:."],
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *[w for option, variable in of_executor.items() for w in (option, f"of {variable}")],
    ]


@pytest.mark.parametrize("has_name", [True, False])
def test_a_user_without_a_name_gets_one_and_a_home(tmp_path, has_name):
    """OpenShift runs images as numbers of its own."""
    users = tmp_path / "passwd"
    users.write_text("root:x:0:0:root:/root:/bin/bash\n")
    script = (IMAGE / "entrypoint.sh").read_text().replace("/etc/passwd", str(users))
    answers = {
        "getent": f"exit {0 if has_name else 2}",
        "id": 'case "$1" in -u) echo 1000650000 ;; -g) echo 0 ;; esac',
        "tini": 'echo "$HOME"',
    }
    for name, body in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    found = subprocess.run(
        ["/bin/sh", "-c", script, "entrypoint.sh", "tfos"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "/"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    added = users.read_text().splitlines()[1:]
    line = "uid-1000650000:x:1000650000:0:Spark:/home/spark:/bin/sh"
    assert (found.stdout.strip(), added) == (("/", []) if has_name else ("/home/spark", [line]))


def test_any_other_command_runs_as_it_is(in_image):
    assert in_image("entrypoint.sh", "tfos", "doctor") == ["tini", "-s", "--", "tfos", "doctor"]


def test_the_connect_server_is_where_the_operator_looks_for_it(in_image):
    words = in_image("start-connect-server.sh", "--master", "k8s://x")
    assert words[:2] == ["spark-submit", "--class"]
    assert words[-3:] == ["--master", "k8s://x", "spark-internal"]
    assert (
        "deploy/image/start-connect-server.sh /opt/spark/sbin/"
        in (IMAGE / "Dockerfile").read_text()
    )


@pytest.mark.parametrize("indices", [["0"], ["0", "1"]])
def test_a_pods_gpus_are_said_as_spark_reads_them(tmp_path, indices):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf '%s\\n' {' '.join(indices)}\n")
    smi.chmod(0o755)
    answer = subprocess.run(
        [IMAGE / "get-gpus.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(answer.stdout) == {"name": "gpu", "addresses": indices}
    assert "deploy/image/get-gpus.sh /opt/spark/" in (IMAGE / "Dockerfile").read_text()
    page = (ROOT / "docs/kubernetes.md").read_text()
    assert "spark.executor.resource.gpu.discoveryScript=/opt/spark/get-gpus.sh" in page


def test_a_pod_whose_gpus_do_not_answer_says_none(tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'no devices were found'\nexit 9\n")
    smi.chmod(0o755)
    answer = subprocess.run(
        [IMAGE / "get-gpus.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (9, b"")


def test_a_pod_that_ends_tells_its_executor_and_waits_for_it(tmp_path):
    name = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    told = tmp_path / "told"
    executor = subprocess.Popen(
        [
            "bash",
            "-c",
            f"trap 'touch {told}' PWR; touch {told}.ready; while :; do sleep 0.1; done",
            name,
        ]
    )
    wait_for((tmp_path / "told.ready").exists, "the executor's handler")
    hook = subprocess.Popen([IMAGE / "decommission.sh"])
    try:
        wait_for(told.exists, "the signal")
        assert hook.poll() is None
    finally:
        executor.send_signal(signal.SIGKILL)
        executor.wait()
    assert hook.wait(60) == 0
