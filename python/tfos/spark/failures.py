"""Failed Spark jobs in the words of tfos.

A task of tfos that fails says why in one sentence, in an exception of :mod:`tfos.errors`. In the
jar, a Java exception has the same sentence. Spark puts either below pages of its own frames, and
pyspark raises one class or another, depending on who did the work. With :func:`install`, pyspark
raises the exception of :mod:`tfos.errors` instead, with that sentence first. Spark's report goes to
the log of this module, level INFO.

What does not come of tfos stays as Spark has it.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

from tfos import errors

logger = logging.getLogger(__name__)

#: Around the part of a message that is a program's own traceback.
MARK = "---- instance's traceback ----"

#: The jar's exceptions, by what their message is in Python. Native code throws the last one for
#: what is neither the caller's mistake nor missing.
_OF_JAVA = {
    "java.lang.IllegalArgumentException": errors.BadInputError,
    "tfos.internal.records.spark.NoColumnsException": errors.BadInputError,
    "java.lang.UnsupportedOperationException": errors.TfosError,
    "java.lang.IllegalStateException": errors.TfosError,
    "java.lang.RuntimeException": errors.TfosError,
}
_PACKAGES_OF_THE_JAR = ("tfos.", "com.yahoo.tensorflowonspark.", "org.tensorflow.hadoop.")
_FEED_EXCEPTION = "tfos.internal.feed.FeedException"
_PYTHON_EXCEPTION = "org.apache.spark.api.python.PythonException"
#: The most causes in a chain.
_MOST_CAUSES = 20

#: Where a traceback ends with an exception of tfos, and Java's text of one.
_RAISED = re.compile(r"^tfos\.errors\.(\w+): ", re.MULTILINE)
_THROWN = re.compile(r"\) \([^()\n]*\): tfos\.errors\.(\w+): ")
#: Behind an exception that another one came of, which is the one that ended the task.
_GAVE_ANOTHER = re.compile(
    r"^(The above exception was the direct cause of|During handling of the above exception, )",
    re.MULTILINE,
)
#: What Spark appends to such texts.
_APPENDED = re.compile(r"\n\s+at [\w.$/]+\(|\n+(JVM stacktrace|Driver stacktrace|\s*SQLSTATE):")
_TASK = re.compile(r"Lost task \S+ in stage \S+ \(TID (\d+)\) \(([^()\n]*)\)")

_lock = threading.Lock()


def install() -> None:
    """Has pyspark raise what tasks of tfos say, in this process; a second time changes nothing."""
    try:
        from pyspark.errors.exceptions import captured
    except ImportError:
        return  # Without Spark, as for `tfos.jar_path()` in a script, no job fails.

    with _lock:
        convert = captured.convert_exception
        if hasattr(convert, "_knows_tfos"):
            return

        def convert_exception(thrown: Any) -> Any:
            return of_java(thrown) or convert(thrown)

        convert_exception._knows_tfos = True  # type: ignore[attr-defined]
        captured.convert_exception = convert_exception


def explained(error: Exception) -> Exception:
    """The exception of tfos that made a Spark job fail with ``error``; else ``error`` itself."""
    if isinstance(error, errors.TfosError):
        return error
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found = None if thrown is None else of_java(thrown)
    found = found or of_text(str(error))
    if found is None and "No module named 'tfos'" in str(error):
        return errors.TfosError(
            "the Python of Spark's executors can't import tfos: install the wheel for it, or "
            "choose the right one with PYSPARK_PYTHON or spark.pyspark.python (it is python3 of "
            "the PATH unless they say otherwise)"
        )
    return found or error


def of_java(thrown: Any) -> errors.TfosError | None:
    """The exception of tfos that a Java exception comes of."""
    found = None
    cause, left = thrown, _MOST_CAUSES
    while found is None and cause is not None and left > 0:
        found = _of_one(cause)
        cause, left = cause.getCause(), left - 1
    report = str(thrown.toString())
    found = found or of_text(report)
    if found is not None:
        logger.info("Spark's report of a failure: %s", report)
        if task := _TASK.search(report):
            place = task[2].replace(" executor ", ", executor ")
            found.add_note(f"Raised in Spark's task {task[1]} on {place}.")
    return found


def of_text(text: str) -> errors.TfosError | None:
    """The same of a traceback in a Python worker, or of what Spark makes of it."""
    raised = list(_RAISED.finditer(text))
    # The messages of these hold tracebacks.
    whole = (m for m in raised if m[1] == "NodeFailedError" or text.find(MARK, m.end()) >= 0)
    match = next(whole, None)
    if match is None:
        match = raised[-1] if raised else _THROWN.search(text)
        if match is None or _GAVE_ANOTHER.search(text, match.end()):
            return None
    message = text[match.end() :]
    if appended := _APPENDED.search(message):
        message = message[: appended.start()]
    return _error(match[1], message.rstrip())


def _of_one(thrown: Any) -> errors.TfosError | None:
    """The error of a Java exception alone, without its causes."""
    name = str(thrown.getClass().getName())
    message = str(thrown.getMessage() or "")
    if name == _FEED_EXCEPTION:
        return _error(thrown.error(), message)
    if name == _PYTHON_EXCEPTION or "PYTHON_DATA_SOURCE" in message:
        return of_text(message)
    kind = _OF_JAVA.get(name)
    if kind is None:
        return None
    frames = thrown.getStackTrace()
    if len(frames) == 0 or not str(frames[0].getClassName()).startswith(_PACKAGES_OF_THE_JAR):
        return None
    return kind(message)


def _error(name: str, message: str) -> errors.TfosError | None:
    kind = getattr(errors, name, None)
    is_ours = isinstance(kind, type) and issubclass(kind, errors.TfosError)
    return kind(message) if is_ours else None  # type: ignore[misc]
