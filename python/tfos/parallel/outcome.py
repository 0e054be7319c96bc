"""What comes of an instance, in its Spark task or in a process of its own."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any

import cloudpickle

from tfos.base.programs import program_pickle, program_process
from tfos.parallel import hadoop


@dataclasses.dataclass(frozen=True)
class Outcome:
    """``pickled`` is what the instance returned; ``failure`` says why there is nothing, or is
    empty."""

    pickled: bytes = b""
    failure: str = ""


def outcome_of(program: bytes, instance: Any) -> Outcome:
    """Runs the pickled ``main(instance)``. A failure is the traceback from ``main`` on."""
    try:
        hadoop.offer_to_tensorflow()
        main = cloudpickle.loads(program)
        return Outcome(pickled=program_pickle.dumps(main(instance)))
    except (Exception, SystemExit) as error:
        shown = program_process.from_the_program_on(error, __file__)
        return Outcome(failure="".join(traceback.format_exception(shown)))
