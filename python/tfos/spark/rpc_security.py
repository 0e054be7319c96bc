"""Whether Spark's own RPC is authenticated and encrypted, as far as a configuration says.

The program, its arguments and the cluster's keys travel inside Spark jobs. What protects Spark's
RPC and its transfer of blocks therefore protects them, too, and nothing else does.

Pure functions of a configuration. Errors: none. Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfos.spark import versions

AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"
CRYPTO = "spark.network.crypto.enabled"
SASL_ENCRYPTION = "spark.authenticate.enableSaslEncryption"
#: Not set by spark.ssl.enabled: Spark wants it to be asked for.
SSL_RPC = "spark.ssl.rpc.enabled"
_SSL_RPC_SINCE = (4, 0)
#: Make the secret themselves and hand it to executors.
_MAKE_SECRETS = ("yarn", "k8s")

#: The value of a key, or None.
Get = Callable[[str], "str | None"]


@dataclass(frozen=True)
class RpcSecurity:
    """What protects the RPC of an application."""

    #: Nobody without the secret takes part.
    authenticated: bool
    #: The setting that has it encrypted; "" when it is in clear.
    encrypted_by: str
    #: What to set so that it is both; "" when it is.
    advice: str

    @property
    def protected(self) -> bool:
        """Whether both hold."""
        return self.authenticated and bool(self.encrypted_by)

    @property
    def found(self) -> str:
        """For people: what holds."""
        authentication = "authenticated" if self.authenticated else "not authenticated"
        encryption = f"encrypted ({self.encrypted_by})" if self.encrypted_by else "not encrypted"
        return f"{authentication}, {encryption}"

    @property
    def meaning(self) -> str:
        """For people: what follows from what lacks; "" when nothing does."""
        dangers = []
        if not self.authenticated:
            dangers.append("anyone with access to its ports can run code as this user")
        if not self.encrypted_by:
            dangers.append("anyone with access to its traffic gets the program and its keys")
        return ", and ".join(dangers)


def is_local(master: str) -> bool:
    """Whether all of the application is on this host: then its RPC does not leave it."""
    return master.startswith("local")


def rpc_security(get: Get, master: str, version: str) -> RpcSecurity:
    """What protects the RPC of an application with that configuration, master and version of
    Spark."""
    authenticated = _is_true(get(AUTHENTICATE))
    encrypted_by = ""
    # Spark's TLS wants no certificate from clients, so it authenticates the server alone.
    if _is_true(get(SSL_RPC)) and versions.number_of(version) >= _SSL_RPC_SINCE:
        encrypted_by = SSL_RPC
    elif authenticated:  # Without a secret Spark refuses to start with the others.
        encrypted_by = next(
            (key for key in (CRYPTO, SASL_ENCRYPTION) if _is_true(get(key))), encrypted_by
        )
    return RpcSecurity(authenticated, encrypted_by, _advice(authenticated, encrypted_by, master))


def _advice(authenticated: bool, encrypted_by: str, master: str) -> str:
    missing = []
    if not authenticated:
        missing.append(f"{AUTHENTICATE}=true")
        if not master.startswith(_MAKE_SECRETS):
            missing.append(f"{SECRET} (the same for Spark's daemons)")
    if not encrypted_by:
        missing.append(f"{CRYPTO}=true")
    return f"set {' and '.join(missing)}" if missing else ""


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"
