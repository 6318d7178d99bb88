"""The certificate of a server that speaks HTTPS itself."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from seqferry.model.errors import ConfigError
from seqferry.model.frozen import frozen

log: Final = logging.getLogger("seqferry.serve")


@frozen
class Tls:
    """Files in PEM form: the certificate with those of its issuers, and its key without a passphrase."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Read both files.

        Raises:
            ConfigError: a file cannot be read or used, or the two do not belong together.
        """
        for path, option in ((self.certificate, "--tls-cert"), (self.key, "--tls-key")):
            try:
                with path.open("rb"):
                    pass
            except OSError as why:
                raise ConfigError(f"{option} {path}: {why.strerror or why}.") from None
        if self.key.stat().st_mode & 0o077:
            log.warning("other users may read the key %s; make it private with: chmod 600", self.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # OpenSSL would ask for a passphrase on the terminal, which a service does not have.
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (ssl.SSLError, ValueError, OSError) as why:
            raise ConfigError(
                f"The certificate {self.certificate} with the key {self.key} cannot be used: {_cause(why)}. Both must "
                "be PEM files that belong together, the certificate of the server first and those of its issuers after "
                "it, and the key without a passphrase."
            ) from None
        return context


def _cause(why: Exception) -> str:
    reason = getattr(why, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key belongs to another certificate"
    if reason == "NO_START_LINE":
        return "a file is not in PEM form"
    return str(reason or "a file is not in PEM form, or the key has a passphrase").lower().replace("_", " ")
