"""Where the tests lie, and how a run of them is recognised."""

from __future__ import annotations

import pathlib
import uuid

SUPPORT = pathlib.Path(__file__).resolve().parent
#: Drivers and others, which are started by their path.
SCRIPTS = SUPPORT / "scripts"
#: Modules of tests are below it, and `support`.
TESTS = SUPPORT.parent
ROOT = TESTS.parents[1]

#: What processes outside of pytest need on their path to import `support` and modules of tests. The
#: first has a `sklearn` that fails on import, as executors need none.
IMPORT_PATHS = (str(SUPPORT / "executors"), str(TESTS), str(ROOT))

#: Inherited by every process that this run of pytest starts, however it is detached.
RUN_VARIABLE = "TFOS_TEST_RUN"
RUN_ID = uuid.uuid4().hex
