"""A certificate authority of the test's own, and a server's certificate by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate_for(name: str, folder: Path) -> tuple[Path, Path]:
    """Files with the authority's certificate, and with the server's certificate and key."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tests")])
    now = datetime.now(UTC)

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, *more: tuple[x509.ExtensionType, bool]) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(root)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        for extension, critical in more:
            builder = builder.add_extension(extension, critical)
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    ca, server = folder / "ca.pem", folder / "server.pem"
    ca.write_bytes(signed(root, authority.public_key(), (x509.BasicConstraints(ca=True, path_length=0), True)))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server.write_bytes(signed(subject, key.public_key(), (names, False)) + private)
    return ca, server
