"""What the harnesses of real daemons share (spark_cluster.py, hadoop_cluster.py,
yarn_cluster.py, s3_server.py)."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

LOG_TAIL_LINES = 20
_PR_SET_PDEATHSIG = 1


class DaemonError(RuntimeError):
    """A daemon failed to start, or stopped on its own, or what it needs is not there."""


def end_with_parent():
    """What a child of this process runs before exec: a killed harness takes its daemons with it."""
    parent = os.getpid()

    def prepare():
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have died before the line above took effect.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class Daemon:
    """One JVM, in a process group of its own, and its log in `directory`.

    name: of the process and its log; full_name: as errors call it ("Spark's master").
    It ends with the thread that started it. Not safe for use from several threads.
    """

    def __init__(self, name, full_name, command, environment, directory):
        self.name = name
        self._full_name = full_name
        self.log_path = directory / f"{name}.log"
        # A group of its own keeps Ctrl-C from ending the daemons before their user has finished.
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
                preexec_fn=end_with_parent(),
            )

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def check_alive(self):
        status = self.process.poll()
        if status is None:
            return
        tail = "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])
        raise DaemonError(
            f"{self._full_name} ended with status {status}; the end of {self.log_path}:\n{tail}"
        )

    def stop(self, deadline):
        """TERM, and KILL for whatever is left of the group at `deadline` (time.monotonic)."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):  # The group is killed below.
            self.process.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):  # Nothing was left.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """Daemons that run as long as a `with` block; what could not start as a whole is stopped.

    For subclasses, which have `_start()` and `stop()`.
    """

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()


def run_with(clusters, name, command, variables):
    """Starts the clusters, runs `command` against them and stops them; returns the exit status.

    clusters: context managers, entered in order; name: of what they are, for people. variables:
    called once they have started; gives where they are, what to replace in the command's arguments
    ({text: by what}), and environment variables.
    """
    signal.signal(signal.SIGTERM, _raise_interrupt)
    begin = time.monotonic()
    try:
        with contextlib.ExitStack() as running:
            for cluster in clusters:
                running.enter_context(cluster)
            where, replaced, environment = variables()
            print(f"{name} ready at {where} after {time.monotonic() - begin:.1f} s", flush=True)
            for text, value in replaced.items():
                command = [argument.replace(text, value) for argument in command]
            status = _run(command, {**os.environ, **environment})
    except DaemonError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Interrupted: {name} was stopped", file=sys.stderr)
        return 130
    print(f"{name} stopped", flush=True)
    return status if status >= 0 else 128 - status


def _raise_interrupt(_signal_number, _frame):
    raise KeyboardInterrupt


def _run(command, environment):
    """Runs `command` to its end, also when interrupted meanwhile; returns its exit status."""
    process = subprocess.Popen(command, env=environment, preexec_fn=end_with_parent())
    try:
        return process.wait()
    except KeyboardInterrupt:
        # A terminal's Ctrl-C has reached the command, too; a signal sent only to us has not.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
