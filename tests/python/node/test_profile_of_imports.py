"""A node that is profiled, and asked for its stacks, while its program imports TensorFlow. Two
threads that import parts of one package can make each other's imports fail."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

#: Generous: TensorFlow is imported while others use the machine.
_MOST_SECONDS = 300

#: What the native side calls while somebody asks, and imports of modules on another thread.
_ONLOOKER = """
    import logging, sys, threading
    from tfos.node import profiling, stacks

    waits = profiling._dataset_waits
    elsewhere, complaints = [], []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if threading.current_thread() is not threading.main_thread():
                elsewhere.append(name)

    class Complaints(logging.Handler):
        def emit(self, record):
            complaints.append(logging.Formatter().format(record))

    sys.meta_path.insert(0, Finder())
    logger = logging.getLogger("tfos.node.dataset_waits")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Complaints())

    def ask():
        profiling.begin()
        stacks.text(), profiling.thread_names(), profiling.cpu_seconds(), profiling.counters()
        profiling.end()

    def ask_on_another_thread():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    def look():
        "The same profile goes on, and TensorFlow is whole."
        ask_on_another_thread()
        assert waits._thread is not None, "nobody has looked"
        waits._thread.join()
        assert not elsewhere, elsewhere
        assert not complaints, complaints
"""

#: Each module needs a name of another one that is not there before both are whole.
_CIRCLES = {
    "__init__": """
        from onlooker import ask_on_another_thread, waits
        ask_on_another_thread()
        assert waits._thread is None, "it looks at a module that is half made"
        from tensorflow.python.profiler import profiler_v2
        errors = "whole"
        ask_on_another_thread()
        from tensorflow.python.profiler.profiler_v2 import start_server
    """,
    "python/__init__": "",
    "python/profiler/__init__": "",
    "python/profiler/profiler_v2": """
        import threading
        from onlooker import ask_on_another_thread
        import tensorflow
        from tensorflow.python.profiler.internal import _pywrap_profiler
        ask_on_another_thread()
        _profiler_lock, _profiler = threading.Lock(), None
        def start_server(): pass
    """,
    "python/profiler/internal/__init__": "",
    "python/profiler/internal/_pywrap_profiler": """
        class ProfilerSession:
            def start(self, folder, options): pass
            def stop(self): return b""
    """,
}


def write(folder: Path, name: str, text: str) -> None:
    file = folder / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))


def run(folder: Path, program: str) -> None:
    write(folder, "onlooker", _ONLOOKER)
    write(folder, "program", program)
    ended = subprocess.run(
        [sys.executable, str(folder / "program.py")],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_MOST_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr


def test_modules_that_are_half_made_are_let_be(tmp_path):
    for name, text in _CIRCLES.items():
        write(tmp_path / "tensorflow", name, text)
    run(
        tmp_path,
        """
        from onlooker import look, waits
        from tfos.node import dataset_waits
        dataset_waits._MOST_LOOKS = 1
        import tensorflow
        assert waits._thread is None
        look()
        """,
    )


def test_a_profile_does_no_harm_to_the_import_of_tensorflow(tmp_path):
    run(
        tmp_path,
        """
        import threading
        from onlooker import ask, look
        whole = threading.Event()

        def ask_again_and_again():
            while not whole.is_set():
                ask()
                whole.wait(0.01)

        asking = threading.Thread(target=ask_again_and_again)
        asking.start()
        try:
            import tensorflow
        finally:
            whole.set()
            asking.join()
        assert tensorflow.constant(1).numpy() == 1
        look()
        """,
    )
