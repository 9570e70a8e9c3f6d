"""Certificate authorities for tests: good certificates, and every kind of wrong one, as PEM files in a folder."""
from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Authority:
    """One authority; `ca_file` is what those who trust it are given."""

    def __init__(self, folder: Path, name: str = "Test authority", days: tuple[float, float] = (-10, 365)):
        self.folder, self.name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject(name)
        certificate = _builder(self._subject, self._subject, self._key.public_key(), days).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = certificate.sign(self._key, hashes.SHA256())
        self.ca_file = _write(folder / f"{name.replace(' ', '_')}.ca.pem", _pem(self.certificate))

    def issue(
        self, name: str, hosts: tuple[str, ...] = ("localhost", "127.0.0.1"), days: tuple[float, float] = (-1, 90),
        password: bytes | None = None,
    ) -> tuple[str, str]:
        """(certificate file, key file) for `name`, valid from and to so many days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name), self._subject, key.public_key(), days)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        stem = name.replace(" ", "_").replace("/", "_")
        cert_file = _write(self.folder / f"{stem}.pem", _pem(certificate))
        return cert_file, _write(self.folder / f"{stem}.key.pem", secret, 0o600)


def _builder(subject, issuer, public_key, days: tuple[float, float]) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * DAY).not_valid_after(now + days[1] * DAY)
    )  # fmt: skip


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Steadyhand"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, data: bytes, mode: int = 0o644) -> str:
    path.write_bytes(data)
    path.chmod(mode)
    return str(path)
