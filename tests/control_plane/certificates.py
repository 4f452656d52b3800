"""Certificates for one run. Nothing outside the run trusts them, and they expire within a day."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

_LIFETIME: Final = datetime.timedelta(days=1)
_CLOCKS_DIFFER: Final = datetime.timedelta(minutes=5)


class KeyPair(NamedTuple):
    """A certificate or a bare public key, with its private key, both in PEM."""

    public: bytes
    private: bytes


class Authority:
    """The certificate authority of one run: servers and clients trust what it signs."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("control-plane", [])
        self._certificate = _builder(self._name, self._name, self._key.public_key(), authority=True)
        self.certificate: Final = _pem(self._certificate.sign(self._key, hashes.SHA256()))

    def server(self, address: str) -> KeyPair:
        """A certificate for a server at the IP ``address``."""
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        return self._issue("kube-apiserver", [], names)

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A certificate for a client. Kubernetes reads user and groups from its subject."""
        return self._issue(user, groups, None)

    def _issue(
        self, user: str, groups: Sequence[str], names: x509.SubjectAlternativeName | None
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(user, groups), self._name, key.public_key(), authority=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), _private(key))


def key_pair() -> KeyPair:
    """The key that signs service account tokens, with its bare public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, _private(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
