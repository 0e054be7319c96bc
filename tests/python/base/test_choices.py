"""Words of which an argument is one."""

import pytest

from tfos.base.choices import check_choice, not_a_choice
from tfos.errors import BadInputError


def test_a_choice_is_let_pass():
    check_choice("fruit", "pear", ("apple", "pear"))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (("apple",), "apple"),
        (("apple", "pear"), "apple or pear"),
        ({"apple": 1, "pear": 2, "fig": 3}, "apple, pear or fig"),
    ],
)
@pytest.mark.parametrize("value", ["plum", None, 7, ["apple"]])
def test_the_message_says_what_it_must_be(choices, words, value):
    with pytest.raises(BadInputError) as raised:
        check_choice("fruit", value, choices)

    assert str(raised.value) == f"fruit must be {words}, not {value!r}"


def test_a_hint_ends_the_message():
    error = not_a_choice("fruit", "plum", ("apple",), " (for the cake)")

    assert str(error) == "fruit must be apple, not 'plum' (for the cake)"
