"""The warnings of a driver say that they are from tfos, as the lines of its progress do."""

import subprocess
import sys

import pytest

WARNING = """
import logging
{logging}
from tfos.cluster.view import last_resort
for _ in range(2):
    last_resort.install()
logging.getLogger("tfos.cluster.start").warning("%s is not authenticated", "Spark's RPC")
logging.getLogger("tfos.cluster.start").info("of no interest")
logging.getLogger("program").warning("not of tfos")
"""


def warned(logging=""):
    """What a program with these lines about the log writes."""
    command = [sys.executable, "-c", WARNING.format(logging=logging)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_warning_without_any_logging_says_that_it_is_from_tfos():
    assert warned() == ["tfos: Spark's RPC is not authenticated", "not of tfos"]


@pytest.mark.parametrize(
    "logging",
    [
        "logging.basicConfig(format='%(name)s|%(message)s')",
        "logger = logging.getLogger('tfos.cluster'); logger.addHandler(logging.StreamHandler());"
        "logger.handlers[0].setFormatter(logging.Formatter('%(name)s|%(message)s'))",
    ],
    ids=["of all", "of a package"],
)
def test_a_program_that_handles_the_log_gets_it_once_and_as_it_wants_it(logging):
    first, *_ = lines = warned(logging)
    assert first == "tfos.cluster.start|Spark's RPC is not authenticated"
    assert len([line for line in lines if "RPC" in line]) == 1


def test_a_program_may_silence_it():
    quiet = "logging.getLogger('tfos').addHandler(logging.NullHandler())"
    assert warned(quiet) == ["not of tfos"]


@pytest.mark.parametrize("gone", ["sys.stderr.close()", "sys.stderr = None"])
def test_a_standard_error_that_is_gone_costs_nothing(gone):
    # Python's own way of a warning fails there.
    quiet = "logging.getLogger('program').disabled = True"
    assert warned(f"import sys; {gone}; {quiet}") == []
