"""The scripts behind `make`: they say where they are, what is missing, and what failed."""

import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios

from support.places import ROOT

NOBODY = 65534
# What `make test` leaves for the commands that it runs. A `make` of a test would take itself for a
# part of that one, and write into its table of steps.
OF_THE_RUN = {"TFOS_STEPS", "MAKELEVEL", "MAKEFLAGS", "MFLAGS"}


def run(*command, **options):
    outside = {name: value for name, value in os.environ.items() if name not in OF_THE_RUN}
    return subprocess.run(
        command,
        **{"capture_output": True, "text": True, "cwd": ROOT, "timeout": 60, "env": outside}
        | options,
    )


def fake_commands(directory, **scripts):
    """An environment in which the commands of `scripts` are found first."""
    directory.chmod(0o755)
    for name, script in scripts.items():
        path = directory / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


def test_steps_are_numbered_and_timed():
    done = run("tools/steps.sh", "First", "echo one", "Second", "echo two")
    assert done.returncode == 0
    words = ["[1/2] First ...", "one", "[1/2] First: done in N s", "[2/2] Second ...", "two"]
    said = re.sub(r"done in \d+ s", "done in N s", done.stdout)
    assert [line for line in said.splitlines() if line][:5] == words
    assert "All 2 steps done" in done.stdout


def test_a_table_of_what_each_step_took_comes_last_and_into_a_file(tmp_path):
    environment = {**os.environ, "TFOS_STEPS": str(tmp_path / "steps")}
    done = run("tools/steps.sh", "First", "true", "Second", "true", env=environment)
    table = [line.split() for line in done.stdout.splitlines() if " s  " in line]
    assert [row[2:] for row in table] == [["First"], ["Second"], ["all", "2", "steps"]]
    run("tools/steps.sh", "Third", "exit 1", env=environment)
    taken = (tmp_path / "steps").read_text().splitlines()
    assert [line.split()[2] for line in taken] == ["First", "Second", "Third"]


def test_a_step_fails_with_the_first_command_of_its_pipe():
    assert run("tools/steps.sh", "First", "exit 3 | true").returncode == 3


def test_the_first_failing_step_ends_the_run_with_its_status():
    done = run("tools/steps.sh", "First", "exit 3", "Second", "echo two")
    assert done.returncode == 3
    assert "[1/2] First FAILED with exit status 3" in done.stderr
    assert "two" not in done.stdout


LONG_OUTPUT = 'for i in $(seq 300); do echo "  [$i/300] step $i"; done'


def logged(tmp_path, script, **variables):
    """Runs the script, and returns what is shown and what is in the log."""
    log = tmp_path / "logs" / "its.log"
    environment = {name: os.environ[name] for name in os.environ if name != "TFOS_WHOLE_LOGS"}
    done = run("tools/logged.sh", str(log), "bash", "-c", script, env={**environment, **variables})
    return done, log


def test_long_output_is_in_a_file_and_its_latest_line_says_how_far_it_is(tmp_path):
    script = f"{LONG_OUTPUT}; sleep 2.5; echo to the end >&2"
    done, log = logged(tmp_path, script, TFOS_LOG_SECONDS="2")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"after [2-9] s: \[300/300\] step 300\n", done.stdout)
    assert len(log.read_text().splitlines()) == 301
    assert logged(tmp_path, LONG_OUTPUT)[0].stdout == ""


def test_on_a_terminal_the_latest_line_stays_in_place_and_the_seconds_go_on(tmp_path):
    primary, secondary = pty.openpty()
    with os.fdopen(primary, "rb", 0) as terminal, os.fdopen(secondary, "wb", 0) as end:
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        script = f'echo "[1/1] {"x" * 100}"; sleep 2.5'
        command = ["tools/logged.sh", str(tmp_path / "log"), "bash", "-c", script]
        environment = {**os.environ, "TERM": "xterm"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end, timeout=60
        )
        assert done.returncode == 0
        shown = terminal.read(1000).decode()
    start, *lines, end_of_line = shown.split("\r")
    assert (start, end_of_line) == ("", "\x1b[K")
    for line in lines:
        assert re.fullmatch(r"[0-9]+ s: \[1/1\] x+\x1b\[K", line)
        assert len(line) == 39 + len("\x1b[K")
    assert len(set(lines)) >= 2


def test_what_fails_names_its_log_and_shows_why(tmp_path):
    script = f"echo 'a.cc:1: error: no such thing'; {LONG_OUTPUT}; echo the last >&2; exit 7"
    done, log = logged(tmp_path, script)
    assert (done.returncode, done.stdout) == (7, "")
    first, *_, last, how = done.stderr.splitlines()
    assert first == "1:a.cc:1: error: no such thing" and last == "the last"
    assert how.startswith(f"This failed with exit status 7; the whole output is in {log}: bash -c")
    assert "[262/300]" in done.stderr and "[100/300]" not in done.stderr
    whole, _ = logged(tmp_path, script, TFOS_WHOLE_LOGS="1")
    assert log.read_text() in whole.stderr and whole.returncode == 7


def test_what_floods_goes_through_a_log_and_ci_shows_all_of_it():
    for tool in ("install_packages", "make_venv", "install_wheel"):
        assert "logged.sh" in (ROOT / f"tools/{tool}.sh").read_text(), tool
    assert "export TFOS_WHOLE_LOGS=1" in (ROOT / ".ci/run").read_text()


def test_an_environment_of_somebody_elses_is_not_cleared(tmp_path):
    """The README has people make one by hand, and `make` another one."""
    (tmp_path / "pyvenv.cfg").touch()
    done = subprocess.run([ROOT / "tools/make_venv.sh", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and (tmp_path / "pyvenv.cfg").exists()
    assert done.stderr == (
        f"{tmp_path} was not made by this script, which would clear it. Move it away, or delete it.\n"
    )


def test_only_an_environment_of_its_own_is_cleared(tmp_path):
    folder, python = tmp_path / "environment", tmp_path / "python"
    # Conda's have no pyvenv.cfg.
    (folder / "conda-meta").mkdir(parents=True)
    python.write_text('#!/bin/sh\n[ "$2" = venv ] && exit 9\necho Python 3.11.2\n')
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python)}
    done = run("tools/make_venv.sh", folder, env=environment)
    assert done.returncode == 1 and "was not made by this script" in done.stderr
    (folder / "conda-meta").rmdir()
    for _ in range(2):  # It knows again what it has begun.
        done = run("tools/make_venv.sh", folder, env=environment)
        assert (done.returncode, done.stderr) == (9, "")


def test_missing_packages_are_named_without_the_right_to_install_them():
    # Somebody else may read neither this checkout nor pytest's directories.
    with tempfile.TemporaryDirectory() as directory:
        environment = fake_commands(
            pathlib.Path(directory),
            dpkg_query="echo unknown",
            sudo="exit 1",
            apt_get="echo apt-get was called",
        )
        as_nobody = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        script = (ROOT / "tools/install_packages.sh").read_text()
        done = subprocess.run(
            [*as_nobody, "bash", "-s", "--", "build"],
            input=script,
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "needs root or sudo" in done.stderr
    assert "libboost1.81-dev" in done.stderr
    assert "apt-get was called" not in done.stdout


def test_missing_packages_are_installed_and_no_others(tmp_path):
    environment = fake_commands(
        tmp_path,
        dpkg_query='[ "$4" = cmake ] && echo unknown || echo installed',
        sudo='[ "$1" = -v ] || "$@"',
        apt_get=f"""echo "apt-get $*"
            [ "$1" = update ] || exit 0
            echo update >>{tmp_path}/updates
            # Another apt is at work at first.
            [ -s {tmp_path}/free ] || {{
              echo 1 >{tmp_path}/free
              echo "E: Could not get lock /var/lib/apt/lists/lock" >&2
              exit 100
            }}""",
    )
    # With a log of its own: another run of the tests may be in this checkout.
    tools = tmp_path / "checkout/tools"
    tools.mkdir(parents=True)
    for name in ("install_packages.sh", "logged.sh"):
        shutil.copy(ROOT / "tools" / name, tools)
    done = run("bash", tools / "install_packages.sh", "build", env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "updates").read_text() == "update\n" * 2
    install = (tools.parent / "build/packages.log").read_text().strip()
    # It waits while another apt holds the lock, and has said so.
    assert install.startswith("apt-get -o DPkg::Lock::Timeout=300 install ")
    assert install.endswith("--no-install-recommends cmake")
    assert "holds the lock of dpkg, this waits up to 300 s for it" in done.stdout


def test_packages_that_cannot_be_looked_up_fail_at_once(tmp_path):
    environment = fake_commands(
        tmp_path,
        dpkg_query='[ "$4" = cmake ] && echo unknown || echo installed',
        sudo='[ "$1" = -v ] || "$@"',
        apt_get="echo E: no network >&2; exit 100",
    )
    done = run("bash", "tools/install_packages.sh", "build", env=environment)
    assert done.returncode == 1 and done.stderr.strip() == "E: no network"


def test_an_old_java_home_is_named(tmp_path):
    fake_commands(tmp_path, java="echo 'openjdk version \"11.0.2\"' >&2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "java").rename(tmp_path / "bin/java")
    environment = {
        **fake_commands(tmp_path, dpkg_query="echo installed", apt_get="exit 9"),
        "JAVA_HOME": str(tmp_path),
    }
    done = run("bash", "tools/install_packages.sh", "run", env=environment)
    assert done.returncode == 1
    assert f"JAVA_HOME is {tmp_path}, and Spark 4 needs a Java of 17" in done.stderr


def test_nothing_is_done_when_nothing_is_missing(tmp_path):
    environment = fake_commands(tmp_path, dpkg_query="echo installed", apt_get="exit 9")
    done = run("bash", "tools/install_packages.sh", "build", "test", env=environment)
    assert (done.returncode, done.stdout) == (
        0,
        "All Debian packages for build test are installed.\n",
    )


def test_the_demo_with_a_wheel_compiles_nothing():
    done = run("make", "--dry-run", "demo", "WHEEL=dist/some.whl")
    assert done.returncode == 0, done.stderr
    assert "install_packages.sh run'" in done.stdout and "install_wheel.sh" not in done.stdout
    assert ".venv-demo/bin/python -m pip" in done.stdout and '"dist/some.whl"' in done.stdout
    without = run("make", "--dry-run", "demo")
    assert "install_wheel.sh" in without.stdout and ".venv-demo" not in without.stdout


def test_a_wheel_that_is_not_there_is_named_before_anything_is_made(tmp_path):
    done = run("make", "demo", f"WHEEL={tmp_path}/missing.whl")
    assert done.returncode == 2 and done.stdout == ""
    assert f"WHEEL={tmp_path}/missing.whl: there is no such file; `make dist`" in done.stderr


def test_a_build_ends_with_the_next_step():
    done = run("make", "--dry-run", "build")
    assert done.returncode == 0, done.stderr
    assert ". .venv/bin/activate" in done.stdout.splitlines()[-1]
