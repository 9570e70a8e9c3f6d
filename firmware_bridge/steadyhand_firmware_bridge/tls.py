"""TLS for every connection of ours that uses it: certificates are verified, and what is wrong with one is said.

    context = tls.client_context(TlsConfig(ca_file="ca.pem"))   # ConfigError names the file, the subject, the date
    ...                                                         # the connection fails with an ssl.SSLError or OSError
    tls.explain(error, host, tls.peer_certificate(host, port))  # says whose certificate, and what is wrong with it

There is no switch to leave verification out. TLS 1.2 is the least that is spoken.
"""
from __future__ import annotations

import contextlib
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

from steadyhand.errors import ConfigError, ProtocolError, RobotError
from steadyhand_firmware_bridge.x509 import Certificate, date, from_der, from_pem

MAX_FILE = 4 << 20
DAY_S = 86400.0
MAX_HOSTS = 5  # of a foreign certificate that are told
# Codes of X509_STORE_CTX_get_error, as OpenSSL documents them.
NOT_YET_VALID, EXPIRED = 9, 10
UNTRUSTED = {2, 18, 19, 20, 21}  # issuer missing, self-signed (leaf, in the chain), issuer not local, leaf unverified
WRONG_PURPOSE, WRONG_HOST = {24, 26}, {62, 64}
# Alerts by which the other side refuses OUR certificate, and signs that it speaks no TLS.
ALERTS = {
    "CERTIFICATE_EXPIRED": "our certificate has expired, it says",
    "UNKNOWN_CA": "it does not know the authority of our certificate",
    "CERTIFICATE_REQUIRED": "it wants a certificate of ours: give cert_file and key_file",
    "BAD_CERTIFICATE": "it refuses our certificate",
    "CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "CERTIFICATE_REVOKED": "our certificate was revoked, it says",
    "ACCESS_DENIED": "it denies access to the owner of our certificate",
    "HANDSHAKE_FAILURE": "it refuses the handshake: no common cipher, or it wants a certificate of ours",
    "PROTOCOL_VERSION": "it speaks no TLS version of ours (1.2 or later)",
}
NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}


@dataclass(frozen=True)
class TlsConfig:
    """PEM files; `owner` names whose configuration it is in messages (such as "broker")."""

    ca_file: str = ""  # authorities to trust; empty: the system's (a server without one asks clients for none)
    cert_file: str = ""  # our own certificate with its chain, where the other side asks for one
    key_file: str = ""  # its key; empty: it is in cert_file
    owner: str = "tls"
    warn_days: float = 30.0  # say so this long before one expires

    def __post_init__(self) -> None:
        if self.key_file and not self.cert_file:
            raise ConfigError(f"{self.owner}.key_file = {self.key_file!r} without cert_file: give both")
        if not 0.0 <= self.warn_days <= 3650.0:
            raise ConfigError(f"{self.owner}.warn_days = {self.warn_days}: give 0 to 3650 days")


def check(config: TlsConfig, unix_s: float | None = None) -> list[str]:
    """Read the files and judge their dates; warnings. Raises ConfigError: missing, no certificate, expired, not yet
    valid, a key that anybody may read. Of a file of authorities at least one must be valid; each invalid one is told.
    """
    unix_s = time.time() if unix_s is None else unix_s
    warnings = []
    if config.ca_file:
        at = f"{config.owner}.ca_file {config.ca_file}"
        authorities = _certificates(at, config.ca_file)
        wrong = [f"{at}: {c.subject!r} {c.validity(unix_s)}" for c in authorities if c.validity(unix_s)]
        if len(wrong) == len(authorities):
            raise ConfigError(f"{wrong[0]}; {_clock(unix_s)}: give a valid authority")
        warnings += wrong + _soon(at, authorities, unix_s, config.warn_days)
    if config.cert_file:
        at = f"{config.owner}.cert_file {config.cert_file}"
        chain = _certificates(at, config.cert_file)
        for certificate in chain:
            if certificate.validity(unix_s):
                said = f"{at}: {certificate.subject!r} {certificate.validity(unix_s)}"
                raise ConfigError(f"{said}; {_clock(unix_s)}: have it issued anew")
        key_at = f"{config.owner}.key_file {config.key_file}" if config.key_file else at
        _check_key(key_at, config.key_file or config.cert_file)
        warnings += _soon(at, chain, unix_s, config.warn_days)
    return warnings


def client_context(config: TlsConfig, unix_s: float | None = None) -> ssl.SSLContext:
    """For connecting: the server must show a valid certificate of a trusted authority, for the host connected to."""
    check(config, unix_s)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies chain and host by default
    if not config.ca_file:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return _loaded(context, config)


def server_context(config: TlsConfig, unix_s: float | None = None) -> ssl.SSLContext:
    """For being connected to; with a `ca_file` clients must show a certificate of one of its authorities."""
    if not config.cert_file:
        raise ConfigError(f"{config.owner}.cert_file is empty: a server needs a certificate")
    check(config, unix_s)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if config.ca_file:
        context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, config)


def explain(error: BaseException, host: str, peer: Certificate | None = None, unix_s: float | None = None) -> str:
    """A failed connection in words; `peer` is the certificate that was shown, if it could be had."""
    unix_s = time.time() if unix_s is None else unix_s
    whose = f"certificate of {host}" + (f" ({peer.subject!r}, issued by {peer.issuer!r})" if peer else "")
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{whose}: {_verification(error, host, peer, unix_s)}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        refused = next((text for alert, text in ALERTS.items() if reason.endswith(f"ALERT_{alert}")), "")
        if refused:
            return f"{host} ended the handshake: {refused}"
        if reason in NO_TLS:
            return f"{host} speaks no TLS on this port: give the TLS port, or configure the connection without TLS"
        return f"TLS with {host} failed: {reason or error}"
    if isinstance(error, socket.gaierror):
        return f"host {host!r} does not resolve: {error.strerror}; give its address or mend the name service"
    return f"{host}: {getattr(error, 'strerror', None) or error or type(error).__name__}"


def peer_certificate(host: str, port: int, timeout_s: float = 2.0) -> Certificate | None:
    """The certificate that a server shows, unverified: only to say what is wrong with it. Nothing is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError, ProtocolError, ValueError):
        with socket.create_connection((host, port), timeout_s) as plain:
            with context.wrap_socket(plain, server_hostname=host) as shown:
                der = shown.getpeercert(binary_form=True)
                return from_der(der) if der else None
    return None


def probe(host: str, port: int, config: TlsConfig, timeout_s: float = 2.0) -> Certificate:
    """One verified handshake; the server's certificate. Raises ConfigError for our files, RobotError for the rest."""
    context = client_context(config)
    try:
        with socket.create_connection((host, port), timeout_s) as plain:
            with context.wrap_socket(plain, server_hostname=host) as shown:
                if shown.version() == "TLSv1.3":
                    _await_alert(shown)
                return from_der(shown.getpeercert(binary_form=True) or b"")
    except (OSError, ProtocolError, ValueError) as error:
        peer = peer_certificate(host, port, timeout_s) if isinstance(error, ssl.SSLCertVerificationError) else None
        raise RobotError(f"{config.owner} {host}:{port}: {explain(error, host, peer)}") from error


def _await_alert(shown: ssl.SSLSocket) -> None:
    """In TLS 1.3 a client's handshake is done before the server has judged its certificate; wait a moment for a no."""
    shown.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        shown.recv(1)


def _verification(error: ssl.SSLCertVerificationError, host: str, peer: Certificate | None, unix_s: float) -> str:
    code = error.verify_code
    if code in (NOT_YET_VALID, EXPIRED):
        said = "has expired" if code == EXPIRED else "is not valid yet"
        if peer is None:
            return f"{said}; {_clock(unix_s)}"
        return f"{peer.validity(unix_s) or f'an authority of its chain {said}'}; {_clock(unix_s)}"
    if code in WRONG_HOST:
        names = _listed(peer.hosts) if peer else ""
        return f"is not for {host!r}" + (f" but for: {names}" if peer else "") + "; connect by a name that it carries"
    if code in UNTRUSTED:
        return f"its authority is not trusted ({error.verify_message}); give ca_file the authority that issued it"
    if code in WRONG_PURPOSE:
        return f"is not meant for this use ({error.verify_message})"
    return str(error.verify_message)


def _listed(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - MAX_HOSTS} more" if len(hosts) > MAX_HOSTS else ""
    return (", ".join(host[:100] for host in hosts[:MAX_HOSTS]) or "none") + more


def _clock(unix_s: float) -> str:
    return f"this machine's clock says {date(unix_s)}"


def _loaded(context: ssl.SSLContext, config: TlsConfig) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if config.ca_file:
            context.load_verify_locations(config.ca_file)
        if config.cert_file:
            context.load_cert_chain(config.cert_file, config.key_file or None, password=_no_password)
    except _Encrypted:
        at = config.key_file or config.cert_file
        raise ConfigError(f"{config.owner}: key {at} is encrypted: nobody is there to type a password") from None
    except (OSError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            said = f"key {config.key_file or config.cert_file} does not belong to {config.cert_file}"
            raise ConfigError(f"{config.owner}: {said}") from error
        files = ", ".join(filter(None, (config.ca_file, config.cert_file, config.key_file)))
        raise ConfigError(f"{config.owner}: {files}: {getattr(error, 'reason', None) or error}") from error
    return context


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted


def _certificates(at: str, name: str) -> list[Certificate]:
    try:
        found = from_pem(_read(at, name))
    except ProtocolError as error:
        raise ConfigError(f"{at}: {error}") from None
    if not found:
        raise ConfigError(f"{at}: holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
    return found


def _read(at: str, name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{at}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE:
        raise ConfigError(f"{at}: more than {MAX_FILE} bytes are not read")
    return data


def _check_key(at: str, name: str) -> None:
    if b"PRIVATE KEY-----" not in _read(at, name):
        raise ConfigError(f"{at}: holds no private key in PEM form")
    if Path(name).stat().st_mode & 0o007:
        raise ConfigError(f"{at}: anybody on this machine may read or change it: chmod 640 it")


def _soon(at: str, certificates: list[Certificate], unix_s: float, days: float) -> list[str]:
    return [
        f"{at}: {c.subject!r} expires on {date(c.not_after_s)}"
        for c in certificates
        if 0.0 <= c.not_after_s - unix_s < days * DAY_S
    ]
