"""``tfos submit``: spark-submit with what tfos needs; ``python -m tfos.cli.submit``.

Says the command on standard error and becomes it, so the exit code is spark-submit's. Where nothing
was run it is 0 for --dry-run and --help, 1 if Spark is missing, or if packing or uploading failed,
and 2 for what people must correct: the command line, a setting, or an environment that can't be
packed. docs/submit.md has examples.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfos import settings
from tfos.cli import python_archive
from tfos.errors import BadInputError, TfosError
from tfos.files import hadoop_settings
from tfos.files.access import access_for, scheme_of
from tfos.spark.installation import (
    PYTHON,
    python_of_executors,
    read_properties,
    spark_defaults,
    spark_home,
)

USAGE = """\
Run a program on a cluster through spark-submit, with the Python environment,
the jar and the settings that tfos needs. Options of spark-submit are passed on
Usage: tfos submit [OPTIONS] PROGRAM.py [ARGUMENT]...

Options:
  --python-env ENV    The Python of the executors, and of the driver in cluster
                      mode: a virtual environment (packed once for each
                      content), or an archive of one, here or on HDFS. Default:
                      the virtual environment that runs `tfos submit`, unless
                      PYSPARK_PYTHON or spark.pyspark.python names a Python that
                      all hosts have
  --env-directory DIR Store the packed environment there once, such as in
                      hdfs:///user/me/environments; hosts that have it don't
                      fetch it again
  --no-env            Pack nothing: all hosts have this Python at the same path,
                      or the Python that PYSPARK_PYTHON or spark.pyspark.python
                      names
  --no-jar            Leave the jar of tfos out, as on Java 8, or where Spark's
                      folder has it
  --dry-run           Print the command and do nothing
  -h, --help          Print this help message; `spark-submit --help` shows those
                      of spark-submit

Common options of spark-submit:
  --master URL        yarn, spark://HOST:PORT, k8s://URL or local[N]
  --deploy-mode MODE  client (the driver runs here) or cluster
  --num-executors N, --executor-cores N, --executor-memory 2g
  --queue NAME        YARN's queue
  --conf KEY=VALUE    Spark's settings and tfos's (`tfos doctor --settings`)
  --py-files FILES    Modules that the program imports
"""

#: Options of spark-submit that take no value.
_SWITCHES = frozenset(
    {"-v", "--verbose", "--supervise", "--version", "--usage-error", "--load-spark-defaults"}
)
_OUR_SWITCHES = frozenset({"--no-env", "--no-jar", "--dry-run", "-h", "--help"})
_OUR_OPTIONS = frozenset({"--python-env", "--env-directory"})
_SHORT = {"-c": "--conf"}
#: Options of spark-submit; the last one given counts there, so what is added must be added to it.
_LISTS = {"--archives": "spark.archives", "--jars": "spark.jars"}
_CONF_OF_OPTION = {"--master": "spark.master", "--deploy-mode": "spark.submit.deployMode"}
_CONF_OF_VARIABLE = {"MASTER": "spark.master", "DEPLOY_MODE": "spark.submit.deployMode"}

#: What the archive is unpacked as, in an executor's working directory.
_UNPACKED = "environment"
_DRIVER_PYTHON = "spark.pyspark.driver.python"
#: YARN and Kubernetes kill containers that exceed the executor's memory plus this: a node with
#: TensorFlow is beside the executor's JVM, not in its heap.
_MEMORY_OVERHEAD = ("spark.executor.memoryOverhead", "2g")
#: From where Kubernetes' driver gets files of the submitting host, in cluster mode.
_UPLOAD_PATH = "spark.kubernetes.file.upload.path"

#: What Spark takes in place of a program.
_SPARKS_OWN = frozenset({"pyspark-shell", "spark-shell", "sparkr-shell", "spark-internal"})

_SECRET_IN_URL = re.compile(r"(://[^/:@\s]*:)[^/\s]+@")
_REDACTED = "REDACTED"


@dataclass
class Request:
    """A command line, taken apart."""

    #: Options of tfos by name; switches are "".
    ours: dict[str, str] = field(default_factory=dict)
    #: (name, value) of spark-submit's, as given; the value of a switch is None.
    options: list[tuple[str, str | None]] = field(default_factory=list)
    #: The program and its arguments.
    program: list[str] = field(default_factory=list)

    def option(self, name: str) -> str | None:
        return next((value for option, value in reversed(self.options) if option == name), None)

    def conf(self) -> dict[str, str]:
        """What --conf says."""
        pairs = (value.partition("=") for name, value in self.options if name == "--conf" and value)
        return {key: value for key, _, value in pairs}


def parse(words: list[str]) -> Request:
    """Takes a command line apart: spark-submit's options end at the first word that is none."""
    request = Request()
    coming = iter(words)
    for word in coming:
        if not word.startswith("-"):
            request.program = [word, *coming]
            break
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name)
        if name in _OUR_SWITCHES:
            request.ours[name] = ""
        elif name in _SWITCHES:
            request.options.append((name, None))
        else:
            is_ours = name in _OUR_OPTIONS
            given = value if equals else next(coming, None)
            # Scripts pass variables that may be empty, and spark-submit takes them.
            if given is None or (is_ours and not given):
                raise BadInputError(f"{name} needs a value")
            if is_ours:
                request.ours[name] = given
            else:
                request.options.append((name, given))
    if "--no-env" in request.ours and (more := _OUR_OPTIONS & request.ours.keys()):
        raise BadInputError(f"--no-env packs nothing: {' '.join(sorted(more))} does not go with it")
    return request


def options() -> dict[str, bool]:
    """All options that the usage names, and whether they take a value."""
    without = _SWITCHES | _OUR_SWITCHES
    names = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", USAGE)
    return {name: name not in without for name in dict.fromkeys(names) if name != "--"}


def check_settings(conf: Mapping[str, str]) -> None:
    """Raises :class:`tfos.errors.BadInputError` for a setting that tfos would not know or
    understand, here and not when the cluster has started."""
    known = {setting.key: setting for setting in settings.SETTINGS}
    for key, value in conf.items():
        if key in known:
            known[key].read(value)
        elif wrong := settings.unknown_key(key):
            raise BadInputError(wrong)


def command(
    request: Request,
    home: Path,
    conf: Mapping[str, str],
    archive: str | None,
    jar: str | None,
    python: str,
) -> list[str]:
    """The spark-submit command.

    Args:
        conf: all that is configured: files and the command line.
        archive: of the Python environment; None: the hosts have their own.
        python: the Python that runs this.
    """
    added: dict[str, str] = {}
    # Spark reads a URI. What is escaped in it already stays so.
    unpacked = f"{urllib.parse.quote(archive, safe='/:@%')}#{_UNPACKED}" if archive else None
    lists = {"--archives": unpacked, "--jars": jar}
    if archive is not None:
        added[PYTHON] = f"./{_UNPACKED}/bin/python"
    elif PYTHON not in conf and not _is_image(conf, archive):
        added[PYTHON] = python
    if not _in_cluster(conf) and archive is not None and _DRIVER_PYTHON not in conf:
        added[_DRIVER_PYTHON] = python
    if _master(conf).startswith(("yarn", "k8s://")) and not any(
        key.startswith(_MEMORY_OVERHEAD[0]) for key in conf
    ):
        added.update([_MEMORY_OVERHEAD])

    words = [str(home / "bin" / "spark-submit")]
    for name, value in request.options:
        if lists.get(name) is None:
            words += [name] if value is None else [name, value]
    for name, ours in lists.items():
        if ours is not None:
            option = request.option(name)  # "" is none, too, whatever is configured
            theirs = conf.get(_LISTS[name]) if option is None else option
            words += [name, ",".join(filter(None, [theirs, ours]))]
    for key, value in added.items():
        words += ["--conf", f"{key}={value}"]
    return [*words, *request.program]


def _master(conf: Mapping[str, str]) -> str:
    return conf.get("spark.master", "local[*]")


def _in_cluster(conf: Mapping[str, str]) -> bool:
    return conf.get("spark.submit.deployMode", "client") == "cluster"


def _is_local(conf: Mapping[str, str]) -> bool:
    return _master(conf).startswith("local")


def _in_pods(conf: Mapping[str, str]) -> bool:
    """Whether the driver is in a pod of its own, too, which has no path of this host."""
    return _master(conf).startswith("k8s://") and _in_cluster(conf)


def _is_image(conf: Mapping[str, str], archive: str | None) -> bool:
    """Whether Python and jar are those of the driver's image, wherever they lie there."""
    return archive is None and _in_pods(conf)


def redacted(words: list[str]) -> str:
    """A command as a line for a shell, without what is named like a secret."""
    shown = []
    hides = False
    for word in words:
        name = hadoop_settings.SECRET.search(word)
        # If any name in a value looks like a secret, all of the value is hidden: which part is
        # that name's, nobody can tell. In JSON and headers, values follow a colon.
        ends = [word.find("="), word.find(":", name.end())] if name else []
        separator = min((end for end in ends if end >= 0), default=-1)
        if hides:
            word = _REDACTED
        elif separator >= 0:
            word = f"{word[: separator + 1]}{_REDACTED}"
        hides = bool(name) and separator < 0 and word.startswith("-")
        shown.append(_SECRET_IN_URL.sub(rf"\1{_REDACTED}@", word))
    return shlex.join(shown)


def configuration(request: Request, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What Spark will see: the environment under the properties file under --conf under options."""
    file = request.option("--properties-file")
    conf = {}
    if file is None or ("--load-spark-defaults", None) in request.options:
        _, defaults = spark_defaults({**environ, "SPARK_HOME": str(home)})
        conf.update(defaults)
    if file is not None and os.path.isfile(file):
        conf.update(read_properties(Path(file)))
    for name, key in _CONF_OF_VARIABLE.items():
        if environ.get(name):
            conf.setdefault(key, environ[name])
    conf.update(request.conf())
    for option, key in _CONF_OF_OPTION.items():
        value = request.option(option)
        if value:
            conf[key] = value
    if python := python_of_executors(conf, environ):
        conf[PYTHON] = python
    return conf


def _check(request: Request, conf: Mapping[str, str]) -> None:
    if not request.program:
        raise BadInputError("which program? `tfos submit --help`")
    if _in_cluster(conf) and _master(conf).startswith("spark://"):
        raise BadInputError(
            "Spark's standalone clusters run Python programs with --deploy-mode client only"
        )
    check_settings(conf)
    program = request.program[0]
    if program not in _SPARKS_OWN and not scheme_of(program) and not os.path.isfile(program):
        raise BadInputError(
            f"there is no file {program}: name the program after the options of spark-submit"
        )


def _check_uploads(conf: Mapping[str, str], archive: str | None, jar: str | None) -> None:
    """Raises :class:`tfos.errors.BadInputError` for files of this host that no pod could get. It is
    known before an environment is packed, which takes minutes."""
    if not _in_pods(conf) or conf.get(_UPLOAD_PATH):
        return
    for path, otherwise in (
        (archive, "--no-env if the image has the Python"),
        (jar, "--no-jar if the image has the jar or the program does without"),
    ):
        if path is not None and scheme_of(path) in ("", "file"):
            raise BadInputError(
                f"pods can't read {path} of this host: set {_UPLOAD_PATH} to a folder that this "
                f"host and the pods reach, such as s3a://BUCKET/uploads, or pass {otherwise}"
            )


def _prepare_directory(directory: str, conf: Mapping[str, str]) -> None:
    """Gives Hadoop's client of this process what is configured for the session, as the nodes have
    it. Raises :class:`tfos.errors.BadInputError` for a directory that nobody serves then."""
    hadoop_settings.adopt(hadoop_settings.of_configuration(conf))
    access_for(directory)


def _archive(
    request: Request, conf: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str | None, Path | None]:
    """The archive of the Python environment, None for none; and the environment that is to be
    packed for it, None where the archive is given."""
    given = request.ours.get("--python-env")
    if "--no-env" in request.ours or (not given and (_is_local(conf) or PYTHON in conf)):
        return None, None
    if given and given.endswith(python_archive.SUFFIXES):
        return given, None
    if given is None and sys.prefix == sys.base_prefix:
        raise BadInputError(
            f"{sys.executable} is in no virtual environment, which could be packed for the "
            f"executors: "
            "pass --python-env, or --no-env if all hosts have this Python with all it needs"
        )
    environment = Path(os.path.abspath(given or sys.prefix))
    python_archive.check(environment)
    name = python_archive.name_of(environment)
    directory = request.ours.get("--env-directory")
    folder = directory.rstrip("/") if directory else _cache(environ)
    return f"{folder}/{name}", environment


def _cache(environ: Mapping[str, str]) -> Path:
    """Where packed environments are kept on this host."""
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise BadInputError(
            f"the user {os.getuid()} has no home directory to keep packed environments in: set "
            "XDG_CACHE_HOME or HOME to a directory that it may write to"
        ) from error
    return cache / "tfos" / "environments"


def _pack(environment: Path, archive: str, directory: str | None, cache: Path) -> None:
    """Makes ``archive`` of the environment where there is none: in the cache, and from there in
    the directory for all."""
    packed = cache / os.path.basename(archive)
    if not packed.exists():
        _say(f"packing {environment} into {packed}")
        python_archive.pack(environment, packed)
    if directory:
        python_archive.upload(packed, directory, _say)


def _jar(request: Request, conf: Mapping[str, str], archive: str | None) -> str | None:
    """The jar of this installation, if it was built with one and the program shall have it."""
    if "--no-jar" in request.ours or _is_image(conf, archive):
        return None
    try:
        from tfos.spark import jar

        return jar.path()
    except (ImportError, TfosError):
        return None


def _say(text: str) -> None:
    print(f"tfos submit: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Becomes spark-submit; returns an exit code otherwise."""
    words = sys.argv[1:] if arguments is None else arguments
    environ = dict(os.environ)  # Spark's shall have nothing that Hadoop's client gets here
    try:
        request = parse(words)
        if not words or {"-h", "--help"} & request.ours.keys():
            print(USAGE, end="")
            return 0 if words else 2
        home = spark_home(os.environ)
        if home is None:
            raise TfosError("Spark was not found: set SPARK_HOME, or install pyspark")
        if not (home / "bin" / "spark-submit").is_file():
            raise TfosError(
                f"{home} has no bin/spark-submit: set SPARK_HOME to the folder of a Spark, or "
                "unset it and install pyspark"
            )
        conf = configuration(request, home, os.environ)
        _check(request, conf)
        directory = request.ours.get("--env-directory")
        if directory:
            _prepare_directory(directory, conf)
        archive, environment = _archive(request, conf, os.environ)
        jar = _jar(request, conf, archive)
        _check_uploads(conf, archive, jar)
        line = command(request, home, conf, archive, jar, sys.executable)
        if "--dry-run" in request.ours:
            print(redacted(line))
            return 0
        if archive is not None and environment is not None:
            _pack(environment, archive, directory, _cache(os.environ))
        _say(f"runs {redacted(line)}")
        os.execve(line[0], line, environ)
    except (TfosError, OSError) as error:
        _say(str(error))
        return 2 if isinstance(error, BadInputError) else 1


if __name__ == "__main__":
    sys.exit(main())
