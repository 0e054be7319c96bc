"""One setting: its names, and how the text of its value is read and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfos.base import quantities
from tfos.base.choices import not_a_choice
from tfos.errors import BadInputError

PREFIX = "spark.tfos."

#: What a time may be at most: beyond it nobody waits, and the wire's milliseconds stay exact.
MOST_SECONDS = 365 * 24 * 3600.0
_MOST_BYTES = 1 << 50


@dataclass(frozen=True)
class Setting:
    """One setting: its name, how its text is read, and its value by default.

    Attributes:
        name: what follows ``spark.tfos.`` in its key.
        type: bool, int, float or str.
        default: its value if it is not set.
        unit: of a number: ``seconds``, ``bytes``, ...; else empty.
        meaning: what it does, for people.
        minimum: of a number.
        maximum: of a number; times and sizes have a bound of their own.
        choices: of a text: all that it may be, in lower case. Empty: anything.
        form: of a text: ``port``, ``size`` or ``token``. Empty: any.
        of_session: whether it is read of the SparkSession, whatever clusters that has.
    """

    name: str
    type: type
    default: Any
    unit: str
    meaning: str
    minimum: float = 0
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    form: str = ""
    of_session: bool = False

    @property
    def key(self) -> str:
        """Its key in the Spark configuration."""
        return PREFIX + self.name

    @property
    def keyword(self) -> str:
        """The argument of :func:`tfos.run`; "" for settings of a session."""
        if self.of_session:
            return ""
        return re.sub(r"([A-Z])", r"_\1", self.name.replace(".", "_")).lower()

    def of(self, spark: Any) -> Any:
        """For tfos itself: what a SparkSession has it set to."""
        value = spark.conf.get(self.key, None)
        return self.default if value is None else self.read(value)

    def read(self, value: Any) -> Any:
        """For tfos itself: ``value`` as this setting's type. A :class:`BadInputError` names the key
        and the text."""
        try:
            if self.type is bool:
                return _read_bool(value)
            if self.type in (int, float):
                number = quantities.read_number(value, self.unit, whole=self.type is int)
                self._check_bounds(value, number)
                return number
        except BadInputError:
            raise  # It says what is wrong already.
        except (TypeError, ValueError, OverflowError) as error:
            raise BadInputError(f"{self.key}={value!r}: expected {self._expected()}") from error
        read = str(value)
        if self.choices:
            read = read.strip().lower()
            if read not in self.choices:
                raise not_a_choice(self.key, value, self.choices, f" ({self.meaning})")
        if self.form == "token" and read and not _IS_TOKEN(read):
            raise BadInputError(f"{self.key}: expected {self._expected()}")  # Never shown.
        if self.form and read and not _HAS_FORM[self.form](read):
            raise BadInputError(f"{self.key}={value!r}: expected {self._expected()}")
        return read

    def _expected(self) -> str:
        """What a value looks like, for errors."""
        form = self.form or self.unit
        default = f", default {self.default}" if self.default != "" else ""
        return f"{_FORMS.get(form, _TYPE_NAMES[self.type])} ({self.meaning}{default})"

    def _check_bounds(self, value: Any, read: float) -> None:
        most = min(self.maximum, _MOST.get(self.unit, math.inf))
        if not read >= self.minimum:
            raise BadInputError(
                f"{self.key}={value!r} is too small: at least {self.minimum:g} {self.unit} "
                f"({self.meaning})"
            )
        if read > most:
            raise BadInputError(
                f"{self.key}={value!r} is too large: at most {most:.16g} {self.unit} "
                f"({self.meaning})"
            )


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
#: As HTTP's "Bearer" takes it (RFC 6750), and too long to be guessed.
_IS_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,256}=*").fullmatch
_HAS_FORM: dict[str, Callable[[str], object]] = {
    "port": quantities.is_port_range,
    "size": quantities.is_size,
    "token": _IS_TOKEN,
}
_FORMS = {
    "seconds": "a time such as 30, 30s, 10min or 2h",
    "bytes": "a size such as 268435456, 256m or 1g",
    "size": "a size such as 256m or 1g",
    "token": "16 to 256 letters, digits and any of ._~+/-",
    "port": "a port or a range of ports such as 5000-5100",
}
_MOST = {"seconds": MOST_SECONDS, "bytes": _MOST_BYTES}


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    word = str(value).strip().lower()
    if word not in words:
        raise ValueError(value)
    return words[word]
