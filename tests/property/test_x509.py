"""The certificate reader beside the `cryptography` library, and on bytes that are no certificate."""
from datetime import datetime, timezone

import pytest
from cryptography import x509 as outside
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge import x509

KEY = ec.generate_private_key(ec.SECP256R1())
DATES = st.datetimes(datetime(1951, 1, 1), datetime(2200, 1, 1)).map(
    lambda d: d.replace(microsecond=0, tzinfo=timezone.utc)
)
NAMES = st.text(st.characters(categories=("L", "N"), include_characters=" -_."), min_size=1, max_size=60).filter(
    lambda text: len(text.encode()) <= 64  # the longest common name (RFC 5280)
)
HOSTS = st.lists(st.from_regex(r"[a-z]{1,10}(\.[a-z]{1,10}){0,3}", fullmatch=True), max_size=4, unique=True)


def certificate(subject: str, issuer: str, before: datetime, after: datetime, hosts: list[str]) -> bytes:
    def name(text: str) -> outside.Name:
        return outside.Name([outside.NameAttribute(NameOID.COMMON_NAME, text)])

    builder = outside.CertificateBuilder(
        name(issuer), name(subject), KEY.public_key(), outside.random_serial_number(), before, after
    )
    if hosts:
        names = outside.SubjectAlternativeName([outside.DNSName(h) for h in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@given(NAMES, NAMES, st.tuples(DATES, DATES).map(sorted), HOSTS)
def test_it_reads_what_was_written(subject, issuer, dates, hosts):
    read = x509.from_der(certificate(subject, issuer, *dates, hosts))
    assert (read.subject, read.issuer) == (f"CN={subject}", f"CN={issuer}")
    assert (read.not_before_s, read.not_after_s) == tuple(d.timestamp() for d in dates)
    assert read.hosts == tuple(hosts)


def test_what_does_not_print_goes_into_no_log():
    der = certificate("a", "b", datetime(2020, 1, 1), datetime(2030, 1, 1), ["host.example"])
    assert x509.from_der(der.replace(b"host.ex", b"\x1b[2J\nhi")).hosts == ("?[2J?hiample",)


WHOLE = certificate("a", "b", datetime(2020, 1, 1), datetime(2030, 1, 1), ["host.example"])


@given(st.binary(max_size=300) | st.integers(0, len(WHOLE) - 1).map(lambda n: WHOLE[:n]))
def test_what_is_no_certificate_is_refused(data):
    with pytest.raises(ProtocolError):
        x509.from_der(data)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused_and_nothing_else(at, value):
    changed = WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :]
    try:
        assert isinstance(x509.from_der(changed), x509.Certificate)
    except ProtocolError:
        pass
