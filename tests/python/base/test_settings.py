"""Settings: keyword over configuration over default, and errors that name the key."""

import pytest

from tfos.errors import BadInputError
from tfos.settings import SETTINGS, Settings, unknown_key


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
    with pytest.raises(
        BadInputError, match="spark.tfos.heartbeat.interval='soon': expected a time such as"
    ):
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


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("rdma", "maybe", "must be false, true or required, not 'maybe'"),
        ("encrypt", "sometimes", "must be auto, true or false, not 'sometimes'"),
        ("log.level", "LOUD", "must be all, trace, debug, info, warn, .* not 'LOUD'"),
    ],
)
def test_another_word_is_refused_with_those_that_there_are(key, text, message):
    with pytest.raises(BadInputError, match=f"spark.tfos.{key} {message}"):
        Settings.resolve({f"spark.tfos.{key}": text}.get, {})


@pytest.mark.parametrize(
    ("keyword", "text", "value"),
    [
        ("feed_memory", "256m", 256 << 20),
        ("feed_memory", "1g", 1 << 30),
        ("feed_memory", "1.5GB", 3 << 29),
        ("feed_region", "64 KiB", 64 << 10),
        ("feed_chunk", "4096b", 4096),
        ("slots_timeout", "30s", 30.0),
        ("node_start_timeout", "10min", 600.0),
        ("node_start_timeout", "2h", 7200.0),
        ("stop_grace", "1500ms", 1.5),
        ("stop_grace", 2, 2.0),
        ("heartbeat_timeout", "1m", 60.0),
    ],
)
def test_sizes_and_times_are_read_as_spark_writes_them(keyword, text, value):
    assert getattr(Settings.resolve({}.get, {keyword: text}), keyword) == value


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("feed.memory", "lots", "expected a size such as 268435456, 256m or 1g"),
        ("feed.memory", "256s", "expected a size"),
        ("feed.memory", "0.3b", "expected a size"),
        ("slots.timeout", "30m30s", "expected a time such as 30, 30s, 10min or 2h"),
        ("gpu.count", 1.9, "expected a whole number"),
        ("gpu.count", True, "expected a whole number"),
        ("gpu.fraction", 2, "is too large: at most 0.9 of a GPU"),
        ("ports", "abc", "expected a port or a range of ports such as 5000-5100"),
        ("ports", "70000", "expected a port"),
        ("ports", "5100-5000", "expected a port"),
        ("coordinator.port", "1-2-3", "expected a port"),
        ("hadoop.jvmMemory", "lots", "expected a size such as 256m or 1g"),
        ("node.startTimeout", float("inf"), "is too large"),
        ("stop.grace", "inf", "is too large"),
        ("heartbeat.interval", 0.001, "is too small: at least 0.01 seconds"),
        ("heartbeat.timeout", 10000000, "is too large"),
        ("feed.memory", 1 << 60, "is too large"),
        ("feed.region", "64m", "is too large: at most 33554432 bytes"),
    ],
)
def test_values_that_cannot_be_are_refused_with_what_is_expected(key, text, message):
    with pytest.raises(BadInputError, match=f"spark.tfos.{key}={text!r}.*{message}"):
        Settings.resolve({f"spark.tfos.{key}": text}.get, {})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("ports", "5000-5100", "5000-5100"),
        ("log.level", "DEBUG", "debug"),
        ("ports", 0, "0"),
        ("hadoop.jvmMemory", "1g", "1g"),
        ("hadoop.jvmMemory", "", ""),
        ("gpu.fraction", "0.9", 0.9),
        ("encrypt", True, "true"),
        ("encrypt", "Auto", "auto"),
        ("scrape.token", "a-token_of/mine.~+==", "a-token_of/mine.~+=="),
        ("scrape.token", "", ""),
    ],
)
def test_values_that_can_be_are_taken(key, text, value):
    settings = Settings.resolve({f"spark.tfos.{key}": text}.get, {})
    (setting,) = [setting for setting in SETTINGS if setting.name == key]
    assert getattr(settings, setting.keyword) == value


@pytest.mark.parametrize("token", ["too-short", "with a space in its middle", "x" * 300])
def test_a_scrape_token_that_cannot_be_is_refused_and_never_shown(token):
    with pytest.raises(BadInputError, match="spark.tfos.scrape.token: expected 16 to 256") as error:
        Settings.resolve({"spark.tfos.scrape.token": token}.get, {})
    assert token not in str(error.value)


@pytest.mark.parametrize(
    "keywords",
    [{"heartbeat_timeout": 0.5}, {"heartbeat_interval": 10}, {"heartbeat_interval": "1min"}],
)
def test_a_heartbeat_timeout_within_the_interval_is_refused(keywords):
    with pytest.raises(BadInputError, match="heartbeat.timeout=.* must be longer than .*interval"):
        Settings.resolve({}.get, keywords)


def test_heartbeats_are_in_seconds():
    settings = Settings.resolve({}.get, {"heartbeat_interval": 0.1, "heartbeat_timeout": 10})
    assert (settings.heartbeat_interval, settings.heartbeat_timeout) == (0.1, 10.0)


def test_every_default_is_a_value_that_can_be():
    for setting in SETTINGS:
        assert setting.read(setting.default) == setting.default


def test_a_misspelt_key_is_told_with_the_one_meant():
    assert unknown_key("spark.tfos.feed.memry") == (
        "spark.tfos.feed.memry is not a setting of tfos; is spark.tfos.feed.memory meant? "
        "`tfos doctor --settings` lists them"
    )
    assert unknown_key("spark.tfos.nothing.like.it").startswith(
        "spark.tfos.nothing.like.it is not a setting"
    )
    for known in ("spark.tfos.feed.memory", "spark.executor.cores", "spark.tfos.inference.jvm"):
        assert unknown_key(known) == ""
    assert unknown_key("spark.tfos.parameterServers") == ""
