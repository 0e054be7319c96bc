"""Settings: keyword over configuration over default, and errors that name the key."""

import pytest

from tfos.errors import BadInputError
from tfos.settings import SETTINGS, Settings


def test_keyword_wins_over_configuration_over_default():
    configuration = {"spark.tfos.feed.memory": "1000", "spark.tfos.feed.region": "500"}
    settings = Settings.resolve(configuration.get, {"feed_memory": 2000})
    assert settings.feed_memory == 2000
    assert settings.feed_region == 500
    assert settings.feed_chunk == 1 << 20


def test_camel_case_keys_are_snake_case_keywords():
    settings = Settings.resolve({}.get, {"coordinator_bind_address": "127.0.0.1"})
    assert settings.coordinator_bind_address == "127.0.0.1"


@pytest.mark.parametrize("text, value", [("true", True), ("No", False), ("1", True)])
def test_booleans_are_read_from_words(text, value):
    assert Settings.resolve({"spark.tfos.progress": text}.get, {}).progress is value


def test_a_value_that_cannot_be_read_names_its_key():
    with pytest.raises(BadInputError, match="spark.tfos.heartbeat.interval='soon' is not a whole"):
        Settings.resolve({"spark.tfos.heartbeat.interval": "soon"}.get, {})


def test_an_unknown_keyword_is_refused_with_the_known_ones():
    with pytest.raises(BadInputError, match="feed_memmory.*feed_memory"):
        Settings.resolve({}.get, {"feed_memmory": 1})


def test_every_setting_explains_itself():
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)
    for setting in SETTINGS:
        assert setting.meaning
        assert isinstance(setting.default, setting.type)


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError):
        Settings({}).nothing


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("feed_memory", -1),
        ("feed_chunk", 0),
        ("slots_timeout", -0.5),
        ("stop_grace", float("nan")),
    ],
)
def test_numbers_that_make_no_sense_are_refused(keyword, value):
    with pytest.raises(
        BadInputError, match=f"spark.tfos.{keyword.replace('_', '.')}=.* is too small"
    ):
        Settings.resolve({}.get, {keyword: value})


@pytest.mark.parametrize(
    "value, word", [(True, "true"), (False, "false"), ("Required", "required")]
)
def test_words_are_read_in_any_case(value, word):
    assert Settings.resolve({}.get, {"rdma": value}).rdma == word


def test_another_word_is_refused_with_those_that_there_are():
    with pytest.raises(
        BadInputError, match="spark.tfos.rdma='maybe' is none of false, true, required"
    ):
        Settings.resolve({"spark.tfos.rdma": "maybe"}.get, {})
