"""The right to attach: certificates and a token that live as long as one driver process.

The driver's certificate is self-signed; workers trust it and nothing else, and expect the fixed name ``TARGET_NAME``
instead of the host's, so any address that reaches the driver works. Workers have a certificate of their own, signed by
the driver's: who has none is turned away in the handshake, before HTTP/2 or gRPC see a byte of it. Each launch of a
worker has a token of its own, so that no worker can take the place of another; the secret from which these are derived
stays with the driver. Tokens are sent as call credentials, which gRPC allows only over TLS.

gRPC is imported by the functions that need it: the driver's identity is made, and its workers are launched, before.
"""

from __future__ import annotations

import datetime
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from asyncsearch.errors import UnauthenticatedError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.rpc.messages import Endpoint, Hello

if TYPE_CHECKING:
    from asyncsearch.rpc.quiet_grpc import grpc

TARGET_NAME = "driver.asyncsearch"
_LAUNCH = re.compile(rb"Bearer (\d{1,10})\.(\d{1,10})\.")
_WORKER_NAME = "worker.asyncsearch"
_BEFORE = datetime.timedelta(days=1)
_AFTER = datetime.timedelta(days=3650)


class Identity(msgspec.Struct, frozen=True):
    """The driver's proof of identity, and the token that workers must send."""

    key_pem: bytes
    certificate_pem: bytes
    worker_key_pem: bytes
    worker_certificate_pem: bytes
    token: str
    """32 random bytes, url-safe; it stays in the driver's process (``bound``)."""

    def __repr__(self) -> str:
        return "Identity(keys, certificates and token hidden)"

    def endpoint(self, address: str, spare_port: int = 0) -> Endpoint:
        """Return the data that a worker needs to attach at ``host:port``, or at the spare port of this host."""
        return Endpoint(
            address=address,
            certificate_pem=self.certificate_pem,
            token=self.token,
            worker_key_pem=self.worker_key_pem,
            worker_certificate_pem=self.worker_certificate_pem,
            spare_port=spare_port,
        )


def make_identity(now: datetime.datetime | None = None) -> Identity:
    """Make new certificates and a new token.

    Args:
        now: creation time of the certificates, the current time by default. They are valid from one day earlier,
            because workers' clocks may be slow.
    """
    # Imported here and not at the top: executors need gRPC but not cryptography.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = now or datetime.datetime.now(datetime.UTC)
    key, worker_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    names = {name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (TARGET_NAME, _WORKER_NAME)}

    def certificate(name: str, owner: ec.EllipticCurvePrivateKey) -> bytes:
        is_driver = owner is key
        made = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names[TARGET_NAME])
            .public_key(owner.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + _AFTER)
            # A worker cannot pass for the driver: other workers expect the driver's name.
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_driver, path_length=0 if is_driver else None), critical=True)
            .sign(key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    def pem(private: ec.EllipticCurvePrivateKey) -> bytes:
        pkcs8, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return private.private_bytes(serialization.Encoding.PEM, pkcs8, no_password)

    return Identity(
        key_pem=pem(key),
        certificate_pem=certificate(TARGET_NAME, key),
        worker_key_pem=pem(worker_key),
        worker_certificate_pem=certificate(_WORKER_NAME, worker_key),
        token=secrets.token_urlsafe(32),
    )


def server_credentials(identity: Identity) -> grpc.ServerCredentials:
    """Return the driver's side of TLS, which ends the handshake of a peer without a worker's certificate."""
    from asyncsearch.rpc.quiet_grpc import grpc

    return grpc.ssl_server_credentials(
        [(identity.key_pem, identity.certificate_pem)],
        root_certificates=identity.certificate_pem,
        require_client_auth=True,
    )


def channel_credentials(endpoint: Endpoint) -> grpc.ChannelCredentials:
    """Return the worker's side of TLS, with the token."""
    from asyncsearch.rpc.quiet_grpc import grpc

    return grpc.composite_channel_credentials(
        tls_credentials(endpoint), grpc.access_token_call_credentials(endpoint.token)
    )


def tls_credentials(endpoint: Endpoint) -> grpc.ChannelCredentials:
    """Return the worker's side of TLS, without the token."""
    from asyncsearch.rpc.quiet_grpc import grpc

    return grpc.ssl_channel_credentials(
        root_certificates=endpoint.certificate_pem,
        private_key=endpoint.worker_key_pem or None,
        certificate_chain=endpoint.worker_certificate_pem or None,
    )


def bound(endpoint: Endpoint, worker: WorkerId, epoch: int) -> Endpoint:
    """Return an endpoint whose token admits one launch of one worker."""
    return msgspec.structs.replace(endpoint, token=_launch_token(endpoint.token, worker, epoch))


def _launch_token(token: str, worker: int, epoch: int) -> str:
    return f"{worker}.{epoch}.{hmac.digest(token.encode(), f'{worker}.{epoch}'.encode(), 'sha256').hex()}"


class Gate:
    """Admits streams that carry a token."""

    def __init__(self, identity: Identity) -> None:
        self._token = identity.token

    def check(self, metadata: Iterable[tuple[str, str | bytes]]) -> tuple[int, int] | None:
        """Check the metadata of a new stream.

        Returns:
            The worker and the epoch to which its token is bound; None if it is the driver's own, which admits any.

        Raises:
            UnauthenticatedError: the token is wrong or missing.
        """
        brought = next((value for key, value in metadata if key == "authorization"), b"")
        brought = brought.encode() if isinstance(brought, str) else brought
        launch = _LAUNCH.match(brought)
        bound_to = None if launch is None else (int(launch[1]), int(launch[2]))
        expected = self._token if bound_to is None else _launch_token(self._token, *bound_to)
        # A comparison in constant time keeps the token from being guessed byte by byte.
        if not hmac.compare_digest(brought, f"Bearer {expected}".encode()):
            raise UnauthenticatedError(
                f"The token is {'wrong' if brought else 'missing'}: this is no worker of the driver that listens here."
            )
        return bound_to


def require_launch(bound_to: tuple[int, int] | None, hello: Hello) -> None:
    """Check that a Hello is of the launch to which the stream's token is bound.

    Raises:
        UnauthenticatedError: it is of another one.
    """
    if bound_to is not None and bound_to != (hello.worker, hello.epoch):
        worker, epoch = bound_to
        raise UnauthenticatedError(
            f"The token is of {worker_name(WorkerId(worker))}, epoch {epoch}, and not of "
            f"{worker_name(hello.worker)}, epoch {hello.epoch}: a worker attaches with the token of its own launch."
        )
