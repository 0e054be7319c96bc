"""The end of a process in which a program of the user has run."""

from __future__ import annotations

import subprocess
import sys

HEAD = """
import atexit, os, sys, threading
from tfos.base.programs import program_process
"""


def run(program):
    return subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, check=False
    )


def test_threads_and_exit_handlers_come_to_their_end_before_the_process_is_done():
    done = run("""
go_on = threading.Event()
def upload():
    go_on.wait()
    print("uploaded")
def say(doing):
    print(f"said: {doing}")
    go_on.set()
atexit.register(print, "exit handler")
atexit.register(lambda: 1 / 0)
threading.Thread(target=upload, name="uploader").start()
program_process.finish(say)
print("done")
program_process.leave(0)
""")
    assert done.returncode == 0 and "ZeroDivisionError" in done.stderr
    assert done.stdout.splitlines() == [
        "said: the program has returned; waiting for its threads: uploader",
        "uploaded",
        "said: running the exit handlers of the program",
        "exit handler",
        "said: ",
        "done",
    ]


def test_a_pool_of_threads_comes_to_its_end():
    done = run("""
from concurrent.futures import ThreadPoolExecutor
begun = threading.Event()
def work():
    begun.wait()
    print("worked")
ThreadPoolExecutor(1).submit(work)
program_process.finish(lambda doing: begun.set())
program_process.leave(0)
""")
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr


def test_daemons_hold_up_nothing():
    done = run("""
threading.Thread(target=threading.Event().wait, daemon=True).start()
program_process.finish()
program_process.leave(3)
""")
    assert done.returncode == 3, done.stderr
