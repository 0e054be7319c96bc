"""What protects Spark's own RPC, by its configuration."""

import pytest

from tfos.spark.rpc_security import is_local, rpc_security

AUTHENTICATE = {"spark.authenticate": "true"}
CRYPTO = {"spark.network.crypto.enabled": "true"}
SASL = {"spark.authenticate.enableSaslEncryption": "true"}
TLS = {"spark.ssl.rpc.enabled": "True "}


def security(conf, master="spark://h:7077", version="4.1.4"):
    return rpc_security(conf.get, master, version)


@pytest.mark.parametrize(
    ("conf", "version", "authenticated", "encrypted_by"),
    [
        ({}, "4.1.4", False, ""),
        (AUTHENTICATE, "4.1.4", True, ""),
        ({"spark.authenticate": "false", **CRYPTO}, "4.1.4", False, ""),
        ({**AUTHENTICATE, **CRYPTO}, "3.5.1-amzn-0", True, "spark.network.crypto.enabled"),
        ({**AUTHENTICATE, **SASL}, "3.5.7", True, "spark.authenticate.enableSaslEncryption"),
        # TLS in Spark is from version 4 on, and asks clients for no certificate.
        (TLS, "4.0.0", False, "spark.ssl.rpc.enabled"),
        (TLS, "3.5.7", False, ""),
        ({**AUTHENTICATE, **TLS, **CRYPTO}, "4.0.0", True, "spark.ssl.rpc.enabled"),
        ({**AUTHENTICATE, **TLS, **CRYPTO}, "3.5.7", True, "spark.network.crypto.enabled"),
        # That of Spark's web pages is another.
        ({**AUTHENTICATE, "spark.ssl.enabled": "true"}, "4.1.4", True, ""),
    ],
)
def test_what_holds(conf, version, authenticated, encrypted_by):
    found = security(conf, version=version)
    assert (found.authenticated, found.encrypted_by) == (authenticated, encrypted_by)
    assert found.protected == (authenticated and encrypted_by != "")
    assert bool(found.meaning) == bool(found.advice) == (not found.protected)


def test_advice_names_what_lacks():
    open_to_all = security({})
    assert open_to_all.found == "not authenticated, not encrypted"
    assert "run code as this user" in open_to_all.meaning
    assert "its keys" in open_to_all.meaning
    assert open_to_all.advice == (
        "set spark.authenticate=true and spark.authenticate.secret (the same for Spark's daemons) "
        "and spark.network.crypto.enabled=true"
    )
    for master in ("yarn", "k8s://https://h:6443"):
        assert "secret" not in security({}, master=master).advice
    assert security(AUTHENTICATE).advice == "set spark.network.crypto.enabled=true"
    assert "network.crypto" not in security(TLS).advice
    assert security({**AUTHENTICATE, **TLS}).found == (
        "authenticated, encrypted (spark.ssl.rpc.enabled)"
    )


def test_local_masters_are_one_host():
    assert all(map(is_local, ("local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]")))
    assert not any(map(is_local, ("yarn", "spark://localhost:1", "k8s://local", "not known")))
