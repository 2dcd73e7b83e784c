"""Who may attach: a certificate and a token that live as long as one driver process.

The certificate is self-signed; workers trust it and nothing else, and expect the fixed name ``TARGET_NAME`` instead of
the host's, so any address that reaches the driver works. The token is sent as call credentials, which gRPC allows
only over TLS.
"""

from __future__ import annotations

import datetime
import hmac
import secrets
from collections.abc import Iterable

import msgspec

from asyncsearch.errors import UnauthenticatedError
from asyncsearch.rpc.messages import Endpoint
from asyncsearch.rpc.quiet_grpc import grpc

TARGET_NAME = "driver.asyncsearch"
_BEFORE = datetime.timedelta(days=1)
_AFTER = datetime.timedelta(days=3650)


class Identity(msgspec.Struct, frozen=True):
    """The driver's proof of identity, and the token that workers must send."""

    key_pem: bytes
    certificate_pem: bytes
    token: str
    """32 random bytes, url-safe."""

    def __repr__(self) -> str:
        return "Identity(key, certificate and token hidden)"

    def endpoint(self, address: str) -> Endpoint:
        """Return the data that a worker needs to attach at ``host:port``."""
        return Endpoint(address=address, certificate_pem=self.certificate_pem, token=self.token)


def make_identity(now: datetime.datetime | None = None) -> Identity:
    """Make a new certificate and token.

    Args:
        now: creation time of the certificate, the current time by default. It is valid from one day earlier,
            because workers' clocks may be slow.
    """
    # Imported here and not at the top: executors need gRPC but not cryptography.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = now or datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, TARGET_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TARGET_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        key_pem=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
        token=secrets.token_urlsafe(32),
    )


def server_credentials(identity: Identity) -> grpc.ServerCredentials:
    """Return the driver's side of TLS."""
    return grpc.ssl_server_credentials([(identity.key_pem, identity.certificate_pem)])


def channel_credentials(endpoint: Endpoint) -> grpc.ChannelCredentials:
    """Return the worker's side of TLS, with the token."""
    return grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(root_certificates=endpoint.certificate_pem),
        grpc.access_token_call_credentials(endpoint.token),
    )


class Gate:
    """Admits streams that carry the token."""

    def __init__(self, identity: Identity) -> None:
        self._expected = f"Bearer {identity.token}".encode()

    def check(self, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Check the metadata of a new stream.

        Raises:
            UnauthenticatedError: the token is wrong or missing.
        """
        brought = next((value for key, value in metadata if key == "authorization"), b"")
        brought = brought.encode() if isinstance(brought, str) else brought
        # A comparison in constant time keeps the token from being guessed byte by byte.
        if not hmac.compare_digest(brought, self._expected):
            raise UnauthenticatedError(
                f"The token is {'wrong' if brought else 'missing'}: this is no worker of the driver that listens here."
            )
