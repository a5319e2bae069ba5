"""TLS towards brokers: our own context, and why the certificate of a broker is refused, which the clients say in riddles."""

import socket
import ssl
from typing import Final

from agent.log.kafka.client import KafkaSecurity, KafkaSettings
from processors.contracts.errors import ConfigError

ADDRESSES_MAX: Final = 3
TIMEOUT_S: Final = 2.0
UNKNOWN_ISSUER: Final = frozenset({18, 19, 20, 21})  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and those after it


def context_of(security: KafkaSecurity) -> ssl.SSLContext:
    """Return our own TLS context: the client's accepts versions that are no longer safe."""
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.certificate_file is not None:
            context.load_cert_chain(security.certificate_file, security.key_file)
    except OSError as error:  # also of a file that holds something else
        named = (security.ca_file, security.certificate_file, security.key_file)
        files = ", ".join(one for one in named if one is not None)
        raise ConfigError(f"The certificate files {files} cannot be used: {error}.") from error
    return context


def refusal(settings: KafkaSettings) -> str:
    """Return in a sentence why no TLS connection to the brokers is possible; empty if TLS is not the reason."""
    if not settings.security.encrypted:
        return ""
    context = context_of(settings.security)
    for address in settings.bootstrap.split(",")[:ADDRESSES_MAX]:
        host, _, port = address.strip().rpartition(":")
        name = host.strip("[]")
        try:
            with (
                socket.create_connection((name, int(port)), TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname=name),
            ):
                return ""
        except ssl.SSLCertVerificationError as error:
            return _refused(address.strip(), error)
        except ssl.SSLError as error:
            return f"TLS with {address.strip()} fails: {(error.reason or str(error)).lower().replace('_', ' ')}."
        except (OSError, ValueError):
            continue
    return ""


def _refused(address: str, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message.rstrip(".")
    if error.verify_code in UNKNOWN_ISSUER:
        why += ", so the CA file of the configuration has not signed it"
    return f"The certificate of {address} is refused: {why}."
