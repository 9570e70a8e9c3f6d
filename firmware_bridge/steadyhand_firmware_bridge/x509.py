"""Reads of a certificate what a person needs to be told: whose it is, who issued it, its dates, the names it is for.

No verification: that is OpenSSL's. This reader only lets a refusal name the subject and the date, which Python's `ssl`
does not tell of a certificate that it has just refused. DER as in RFC 5280; anything malformed is a ProtocolError.
"""
from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from dataclasses import dataclass
from datetime import datetime, timezone

from steadyhand.errors import ProtocolError

MAX_BYTES = 1 << 20  # of one certificate
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
ATTRIBUTES = {b"\x55\x04\x03": "CN", b"\x55\x04\x0a": "O", b"\x55\x04\x0b": "OU", b"\x55\x04\x06": "C"}
SUBJECT_ALT_NAME = b"\x55\x1d\x11"
SEQUENCE, SET, OID, OCTETS = 0x30, 0x31, 0x06, 0x04
UTC_TIME, GENERALIZED_TIME, BMP_STRING = 0x17, 0x18, 0x1E
VERSION, EXTENSIONS, DNS_NAME, IP_ADDRESS = 0xA0, 0xA3, 0x82, 0x87


@dataclass(frozen=True)
class Certificate:
    """`subject` and `issuer` as "CN=..., O=..."; dates as Unix seconds; `hosts`: DNS names and addresses it is for."""

    subject: str
    issuer: str
    not_before_s: float
    not_after_s: float
    hosts: tuple[str, ...] = ()

    def validity(self, unix_s: float) -> str:
        """What is wrong with its dates at `unix_s`; empty when nothing is."""
        if unix_s > self.not_after_s:
            return f"expired on {date(self.not_after_s)}"
        if unix_s < self.not_before_s:
            return f"is not valid before {date(self.not_before_s)}"
        return ""


def date(unix_s: float) -> str:
    """A date and time in UTC, for people."""
    return datetime.fromtimestamp(unix_s, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def from_pem(data: bytes) -> list[Certificate]:
    """Every certificate of a PEM file, in its order; none found is an empty list."""
    found = []
    for body in PEM.findall(data):
        try:
            der = base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error as error:
            raise ProtocolError(f"certificate {len(found) + 1}: no base64 ({error})") from None
        found.append(from_der(der))
    return found


def from_der(der: bytes) -> Certificate:
    """One certificate. Raises ProtocolError when it is malformed or larger than 1 MiB."""
    if len(der) > MAX_BYTES:
        raise ProtocolError(f"certificate of {len(der)} bytes: more than {MAX_BYTES} are not read")
    try:
        return _certificate(der)
    except (IndexError, ValueError, OverflowError) as error:
        raise ProtocolError(f"malformed certificate: {error}") from None


def _certificate(der: bytes) -> Certificate:
    fields = _children(_children(_one(der, SEQUENCE))[0][1])
    if fields[0][0] == VERSION:
        fields = fields[1:]
    _serial, _algorithm, issuer, validity, subject, _key, *rest = fields
    before, after = (_time(*t) for t in _children(validity[1]))
    extensions = next((_children(_one(body, SEQUENCE)) for tag, body in rest if tag == EXTENSIONS), [])
    return Certificate(_name(subject[1]), _name(issuer[1]), before, after, _hosts(extensions))


def _children(data: bytes) -> list[tuple[int, bytes]]:
    """(tag, content) of every element of a constructed value."""
    found, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4 or at + size > len(data):
                raise ValueError(f"length of {size} bytes at {at}")
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if at + length > len(data):
            raise ValueError(f"{length} bytes announced at {at}, {len(data) - at} are there")
        found.append((tag, data[at : at + length]))
        at += length
    return found


def _one(data: bytes, tag: int) -> bytes:
    found = _children(data)
    if len(found) != 1 or found[0][0] != tag:
        raise ValueError(f"wanted one element {tag:#x}, found {[hex(t) for t, _ in found][:5]}")
    return found[0][1]


def _time(tag: int, body: bytes) -> float:
    text = body.decode("ascii")
    if tag == UTC_TIME:  # RFC 5280 4.1.2.5.1: 50 and above is 19xx
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != GENERALIZED_TIME:
        raise ValueError(f"time of type {tag:#x}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()


def _name(body: bytes) -> str:
    parts = []
    for tag, attributes in _children(body):
        for _, pair in _children(attributes) if tag == SET else ():
            (_, oid), (kind, value) = _children(pair)
            text = value.decode("utf-16-be" if kind == BMP_STRING else "utf-8", "replace")
            if oid in ATTRIBUTES:
                parts.append(f"{ATTRIBUTES[oid]}={_printable(text)[:100]}")
    return ", ".join(parts) or "(no name)"


def _printable(text: str) -> str:
    """As it may go into logs."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _hosts(extensions: list[tuple[int, bytes]]) -> tuple[str, ...]:
    found = []
    for _, body in extensions:
        parts = _children(body)
        if parts[0] != (OID, SUBJECT_ALT_NAME):
            continue
        for tag, value in _children(_one(parts[-1][1], SEQUENCE)):
            if tag == DNS_NAME:
                found.append(_printable(value.decode("ascii")))
            elif tag == IP_ADDRESS:
                found.append(str(ipaddress.ip_address(value)))
    return tuple(found)
