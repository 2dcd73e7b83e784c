"""Certificates for servers of this machine: an authority of their own, and one key that all servers use."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

PASSWORD = "for-tests"
_DAYS = 3650


class Certificates:
    """The certificates in one folder.

    Attributes:
        authority: what clients must trust, a file in PEM.
        keys: what servers show, a key store of the kind PKCS12 with ``PASSWORD``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = folder / "authority.pem"
        self.keys = folder / "servers.p12"

    def make(self) -> None:
        """Make them, unless they are there."""
        if self.keys.exists():
            return
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import pkcs12

        self._folder.mkdir(mode=0o700, exist_ok=True)
        own, servers = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        authority = _certificate("authority", own.public_key(), own)
        server = _certificate("servers", servers.public_key(), own)
        self.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
        self.keys.write_bytes(
            pkcs12.serialize_key_and_certificates(b"servers", servers, server, [authority], encryption)
        )

    def settings(self) -> dict[str, object]:
        """Return the content of ``ssl-server.xml``."""
        words = {"location": self.keys, "password": PASSWORD, "keypassword": PASSWORD, "type": "pkcs12"}
        return {f"ssl.server.keystore.{key}": value for key, value in words.items()}


def _certificate(name: str, key: object, signer: object) -> object:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    names = {one: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, "authority")}
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(names[name])
        .issuer_name(names["authority"])
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + _DAYS * day)
        .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .sign(signer, hashes.SHA256())
    )
