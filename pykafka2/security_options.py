"""The options of TLS and SASL, shared by all clients.

Part of options.py's table; the names are Java's, with those of librdkafka and kafka-python as aliases.
network/tls.py and network/sasl/ use them.
"""

# ruff: noqa: RUF009 (the calls in the class bodies declare attrs fields)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

import attrs

from pykafka2.errors import ConfigurationError
from pykafka2.jaas import FOR_MSK, BadJaasConfig, parse_jaas_config
from pykafka2.option_fields import (
    Because,
    callback,
    choice,
    custom,
    duration,
    flag,
    names,
    sendable_text,
    target_of,
    text,
)
from pykafka2.text import PEM_BEGIN

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
TlsVersion = Literal["TLSv1.2", "TLSv1.3"]
TlsProtocol = Literal["TLS", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]
OauthMethod = Literal["default", "oidc"]
PROTOCOLS: tuple[SecurityProtocol, ...] = get_args(SecurityProtocol)
MECHANISMS: tuple[SaslMechanism, ...] = get_args(SaslMechanism)
PASSWORD_MECHANISMS = MECHANISMS[:3]
SENT_CREDENTIALS = (
    "sasl_username",
    "sasl_password",
    "sasl_oauthbearer_client_id",
    "sasl_oauthbearer_client_secret",
)
TLS_SOURCES = (
    "ssl_context",
    "ssl_cafile",
    "ssl_ca_pem",
    "ssl_certfile",
    "ssl_certificate_pem",
    "ssl_keyfile",
    "ssl_key_pem",
    "ssl_crlfile",
)
"""Options that have an effect only with TLS."""


PEM_OF_FILES = {
    "ssl_cafile": "ssl_ca_pem",
    "ssl_certfile": "ssl_certificate_pem",
    "ssl_keyfile": "ssl_key_pem",
}
"""The option for the data by the option for the name of a file."""


def _read_mechanism(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    name = value.upper()
    if name == "GSSAPI":
        raise Because("Kerberos needs a C library, so pykafka2 does not offer it")
    if name == "AWS_MSK_IAM":
        raise Because(FOR_MSK)
    if name not in MECHANISMS:
        raise ValueError
    return name


def _read_jaas_config(value: Any) -> dict[str, str]:
    if not isinstance(value, str):
        raise ValueError
    try:
        return parse_jaas_config(value)
    except BadJaasConfig as error:
        raise Because(str(error)) from None


def _read_extensions(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(sign for _, sign, _ in pairs):
            raise ValueError
        return {name.strip(): text.strip() for name, _, text in pairs}
    if isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair):
        return dict(value)
    raise ValueError


@attrs.define(kw_only=True, frozen=True)
class SecurityOptions:
    """TLS and SASL options of one client. Durations are seconds; the table has public names and units."""

    security_protocol: str = choice(
        "security_protocol",
        "PLAINTEXT",
        PROTOCOLS,
        "The protocol of the connections; with SSL, certificates and host names are verified.",
    )
    ssl_context: Any = callback(
        "ssl_context", "An ssl.SSLContext; replaces the other ssl options.", legal="an ssl.SSLContext"
    )
    ssl_cafile: str | None = text(
        "ssl_cafile",
        None,
        "PEM file of trusted authorities; None uses those of the system.",
        aliases=("ssl_ca_location",),
    )
    ssl_ca_pem: str | None = text(
        "ssl_ca_pem",
        None,
        "The trusted authorities as PEM text.",
        aliases=("ssl_truststore_certificates",),
    )
    ssl_certfile: str | None = text(
        "ssl_certfile",
        None,
        "PEM file of the client's certificate and its chain.",
        aliases=("ssl_certificate_location",),
    )
    ssl_certificate_pem: str | None = text(
        "ssl_certificate_pem",
        None,
        "The client's certificate and its chain as PEM text.",
        aliases=("ssl_keystore_certificate_chain",),
    )
    ssl_keyfile: str | None = text(
        "ssl_keyfile", None, "PEM file of the client's private key.", aliases=("ssl_key_location",)
    )
    ssl_key_pem: str | None = text(
        "ssl_key_pem",
        None,
        "The client's private key as PEM text.",
        secret=True,
        aliases=("ssl_keystore_key",),
    )
    ssl_password: str | None = text(
        "ssl_password", None, "Password of the private key.", secret=True, aliases=("ssl_key_password",)
    )
    ssl_crlfile: str | None = text(
        "ssl_crlfile", None, "PEM file of revoked certificates.", aliases=("ssl_crl_location",)
    )
    ssl_ciphers: str | None = text(
        "ssl_ciphers",
        None,
        "Ciphers in OpenSSL's notation, up to TLS 1.2.",
    )
    ssl_check_hostname: bool = flag(
        "ssl_check_hostname", True, "Whether a broker's certificate must contain its host name."
    )
    ssl_enabled_protocols: tuple[str, ...] = names(
        "ssl_enabled_protocols", ("TLSv1.2", "TLSv1.3"), "The TLS versions allowed."
    )
    ssl_protocol: str | None = choice(
        "ssl_protocol",
        None,
        get_args(TlsProtocol),
        "The lowest TLS version allowed, as in Java's files; versions below 1.2 never are.",
    )
    sasl_mechanism: str | None = custom(
        "sasl_mechanism",
        None,
        _read_mechanism,
        "one of " + ", ".join(map(repr, MECHANISMS)),
        "The mechanism for security_protocol SASL_PLAINTEXT or SASL_SSL.",
        aliases=("sasl_mechanisms",),
    )
    sasl_username: str | None = text(
        "sasl_username", None, "The user, for PLAIN and SCRAM.", aliases=("sasl_plain_username",)
    )
    sasl_password: str | None = text(
        "sasl_password",
        None,
        "The user's password, for PLAIN and SCRAM.",
        secret=True,
        aliases=("sasl_plain_password",),
    )
    sasl_delegation_token: bool = flag(
        "sasl_delegation_token",
        False,
        "Whether user and password are the id and HMAC of a delegation token, for SCRAM.",
    )
    sasl_jaas_config: dict[str, str] | None = custom(
        "sasl_jaas_config",
        None,
        _read_jaas_config,
        "a line of JAAS for PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule",
        "User and password, or an OAuth client's credentials, as Java writes them.",
        secret=True,
    )
    sasl_oauth_token_provider: Any = callback(
        "sasl_oauth_token_provider",
        "Returns OAUTHBEARER tokens: a callable, or an object with token(); not called on the IO thread. "
        "Text names one as module:function; clients of a process with equal options share its tokens.",
        legal="a callable without arguments, an object with a method token(), or 'module:function'",
        is_importable=True,
    )
    oauth_cb: Any = callback(
        "oauth_cb",
        "Token callback of confluent-kafka: called with sasl_oauthbearer_config, returns (token, expiry).",
        legal="a callable with one argument, or 'module:function'",
        is_importable=True,
    )
    sasl_oauthbearer_config: str = text("sasl_oauthbearer_config", "", "The argument of oauth_cb.")
    sasl_oauthbearer_method: str = choice(
        "sasl_oauthbearer_method",
        "default",
        get_args(OauthMethod),
        "librdkafka's source of tokens; pykafka2 chooses it by the options that are set.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = text(
        "sasl_oauthbearer_token_endpoint_url",
        None,
        "The token endpoint of the OpenID Connect provider, for client credentials.",
    )
    sasl_oauthbearer_client_id: str | None = text(
        "sasl_oauthbearer_client_id",
        None,
        "The client's id at the OpenID Connect provider.",
        aliases=("sasl_oauthbearer_client_credentials_client_id",),
    )
    sasl_oauthbearer_client_secret: str | None = text(
        "sasl_oauthbearer_client_secret",
        None,
        "The client's secret.",
        secret=True,
        aliases=("sasl_oauthbearer_client_credentials_client_secret",),
    )
    sasl_oauthbearer_scope: str | None = text(
        "sasl_oauthbearer_scope", None, "The requested scope, if the provider needs one."
    )
    sasl_oauthbearer_extensions: dict[str, str] | None = custom(
        "sasl_oauthbearer_extensions",
        None,
        _read_extensions,
        "a dict of texts, or 'name=value,name=value'",
        "SASL extensions that are sent with each token, such as a logical cluster.",
    )
    sasl_login_timeout: float = duration(
        "sasl_login_read_timeout_ms",
        10_000,
        "The timeout of a token request.",
    )
    https_ca_location: str | None = text(
        "https_ca_location", None, "PEM file of the authorities trusted for the token endpoint."
    )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")


def check_security(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the security options, by field name, and return them with those in sasl_jaas_config.  Raise
    `ConfigurationError`."""
    values = {**values}
    for name, value in (values.pop("sasl_jaas_config", None) or {}).items():
        if name in values:
            raise ConfigurationError(f"{name} is set twice, once in sasl_jaas_config; remove one of the two")
        values[name] = value
    if "ssl_enabled_protocols" in values:
        _check_tls_versions(values["ssl_enabled_protocols"])
    if values.get("ssl_protocol") == "TLSv1.3":
        values["ssl_enabled_protocols"] = _only_tls_1_3(values.get("ssl_enabled_protocols"))
    _check_files(values)
    _check_key(values)
    if str(values.get("security_protocol", "")).startswith("SASL_"):
        _check_sasl(values)
    return values


def _check_tls_versions(versions: tuple[str, ...]) -> None:
    if not versions or not {*versions} <= {"TLSv1.2", "TLSv1.3"}:
        raise ConfigurationError(
            f"ssl_enabled_protocols={versions!r} is not valid; use 'TLSv1.2', 'TLSv1.3' or both"
        )


def _only_tls_1_3(versions: tuple[str, ...] | None) -> tuple[str, ...]:
    if versions is not None and "TLSv1.3" not in versions:
        raise ConfigurationError(
            f"ssl_protocol='TLSv1.3' is above ssl_enabled_protocols={versions!r}; remove one of the two"
        )
    return ("TLSv1.3",)


def _check_files(options: Mapping[str, Any]) -> None:
    for name, pem in PEM_OF_FILES.items():
        if PEM_BEGIN in str(options.get(name, "")):
            raise ConfigurationError(f"{name} contains PEM data; use the name of a file, or set {pem}")


def _check_key(options: Mapping[str, Any]) -> None:
    if options.get("ssl_keyfile") and not options.get("ssl_certfile"):
        raise ConfigurationError("ssl_keyfile is set without ssl_certfile; a key needs its certificate")
    if options.get("ssl_key_pem") and not options.get("ssl_certificate_pem"):
        raise ConfigurationError(
            "ssl_key_pem is set without ssl_certificate_pem; a key needs its certificate"
        )
    for file, pem in PEM_OF_FILES.items():
        if options.get(file) and options.get(pem):
            raise ConfigurationError(f"{file} and {pem} exclude each other; set one of them")


def _check_sasl(options: Mapping[str, Any]) -> None:
    mechanism = options.get("sasl_mechanism")
    if mechanism is None:
        raise ConfigurationError(
            f"security_protocol={options['security_protocol']!r} needs sasl_mechanism: one of "
            + ", ".join(MECHANISMS)
        )
    _check_sendable(options)
    if mechanism in PASSWORD_MECHANISMS:
        for name in ("sasl_username", "sasl_password"):
            if not options.get(name):
                raise ConfigurationError(f"sasl_mechanism={mechanism!r} needs {name}")
        return
    sources = [
        name
        for name in ("sasl_oauth_token_provider", "oauth_cb", "sasl_oauthbearer_token_endpoint_url")
        if options.get(name) is not None
    ]
    if len(sources) != 1:
        raise ConfigurationError(
            "sasl_mechanism='OAUTHBEARER' needs one source of tokens: sasl_oauth_token_provider, oauth_cb or "
            f"sasl_oauthbearer_token_endpoint_url; set: {', '.join(sources) or 'none'}"
        )
    if sources == ["sasl_oauthbearer_token_endpoint_url"]:
        if not str(options[sources[0]]).startswith(("https://", "http://")):
            raise ConfigurationError(f"{sources[0]} must begin with https:// (or http://, for tests)")
        if "@" in str(options[sources[0]]).split("/")[2]:
            raise ConfigurationError(
                f"{sources[0]} must not contain a user or a password; set sasl_oauthbearer_client_id and "
                "sasl_oauthbearer_client_secret"
            )
        for name in ("sasl_oauthbearer_client_id", "sasl_oauthbearer_client_secret"):
            if not options.get(name):
                raise ConfigurationError(f"sasl_oauthbearer_token_endpoint_url needs {name}")
    elif not _returns_tokens(target_of(options[sources[0]])):
        provider = target_of(options[sources[0]])
        hint = f"; pass an object: {provider.__name__}()" if isinstance(provider, type) else ""
        raise ConfigurationError(f"{sources[0]} must be callable, or an object with a method token(){hint}")


def _check_sendable(options: Mapping[str, Any]) -> None:
    """Raise the error here, without the value: an encoding error later would show the secret."""
    for name in SENT_CREDENTIALS:
        try:
            sendable_text(options.get(name) or "")
        except Because as error:
            raise ConfigurationError(f"{name}: {error}") from None


def _returns_tokens(provider: Any) -> bool:
    if callable(getattr(provider, "token", None)):
        return not isinstance(provider, type)
    return callable(provider)


class SecurityConfig(TypedDict, total=False):
    """The keyword options of security, for type checkers."""

    security_protocol: SecurityProtocol
    ssl_context: Any
    ssl_cafile: str | None
    ssl_ca_location: str | None
    ssl_ca_pem: str | None
    ssl_truststore_certificates: str | None
    ssl_certfile: str | None
    ssl_certificate_location: str | None
    ssl_certificate_pem: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keyfile: str | None
    ssl_key_location: str | None
    ssl_key_pem: str | None
    ssl_keystore_key: str | None
    ssl_password: str | None
    ssl_key_password: str | None
    ssl_crlfile: str | None
    ssl_crl_location: str | None
    ssl_ciphers: str | None
    ssl_check_hostname: bool
    ssl_enabled_protocols: TlsVersion | Sequence[TlsVersion]
    ssl_protocol: TlsProtocol | None
    sasl_mechanism: SaslMechanism | None
    sasl_mechanisms: SaslMechanism | None
    sasl_username: str | None
    sasl_plain_username: str | None
    sasl_password: str | None
    sasl_plain_password: str | None
    sasl_delegation_token: bool
    sasl_jaas_config: str | None
    sasl_oauth_token_provider: Any
    oauth_cb: Any
    sasl_oauthbearer_config: str
    sasl_oauthbearer_method: OauthMethod
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_id: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_secret: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    sasl_login_read_timeout_ms: float
    https_ca_location: str | None
