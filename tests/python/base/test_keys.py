"""A cluster's keys, and what is said of encryption."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from tfos.base import encryption, keys
from tfos.errors import BadInputError


def test_a_key_is_what_the_page_of_the_handshake_says():
    token = keys.new_token()
    for purpose in (*keys.OF_LAUNCH, "read", "scrape", "steer", "operate"):
        expected = hmac.digest(bytes.fromhex(token), f"tfos key {purpose}".encode(), hashlib.sha256)
        assert keys.key_for(token, purpose) == expected.hex()


def test_who_launches_nodes_gets_no_other_keys_and_no_token():
    token = keys.new_token()
    given = keys.keys_of_launch(token)
    assert sorted(given) == ["feed", "join", "parameters", "tensors"]
    assert token not in given.values()


def test_a_purpose_that_is_none_and_a_token_that_is_none_are_refused():
    with pytest.raises(BadInputError, match="purpose of a key must be .*, not 'everything'"):
        keys.key_for(keys.new_token(), "everything")
    with pytest.raises(BadInputError, match="64 hexadecimal digits") as refused:
        keys.key_for("abcdefg", "join")
    assert "abcdefg" not in str(refused.value)


@pytest.mark.parametrize("setting", ["auto", "true", "false"])
def test_what_is_in_force_is_a_sentence_with_the_setting(setting):
    said = encryption.in_force(setting)
    assert said.endswith(f"(spark.tfos.encrypt={setting})")
    assert ("not encrypted" in said) == (setting == "false")
    assert ("pages" in said) == (setting != "false"), "they are plain HTTP"
