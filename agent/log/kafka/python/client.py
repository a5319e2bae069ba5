"""kafka-python as a client of the log: what it makes, and what its errors mean."""

import ssl
from collections.abc import Sequence
from typing import Final

from kafka import errors
from kafka.client_async import KafkaClient

from agent.log.kafka.client import Client, Fault, Meaning
from agent.log.kafka.python.admin import PythonAdmin
from agent.log.kafka.python.arguments import connection
from agent.log.kafka.python.consumer import PythonMember
from agent.log.kafka.python.producer import PythonTransactions, PythonWriter
from agent.log.kafka.python.reading import PythonReader
from agent.log.kafka.settings import KafkaSettings, milliseconds

FENCED: Final = (errors.FencedInstanceIdError, errors.InvalidProducerEpochError, errors.ProducerFencedError)
REBALANCED: Final = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
)
UNREACHABLE: Final = (errors.NoBrokersAvailable, errors.KafkaConnectionError, ssl.SSLError)
RESOURCES: Final = {"Topic": "a topic", "Group": "a consumer group", "TransactionalId": "a transactional id"}


class PythonClient:
    """Clients of kafka-python for one cluster."""

    reads_metadata_exactly = True

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings

    def fault(self, error: BaseException) -> Fault:
        """Return what an error means. Of a write that comes after the one that failed, the client hands the cause on."""
        if isinstance(error, UNREACHABLE):
            return Fault(Meaning.UNREACHABLE, "" if str(error) == type(error).__name__ else str(error))
        causes = (error, *error.args)
        for cause in causes:
            if isinstance(cause, errors.AuthorizationError):
                return _forbidden(cause)
        name, text = type(error).__name__, str(error).partition("\n")[0]
        reason = text if name in text else f"{name}: {text}" if text else name
        for meaning, kinds in ((Meaning.FENCED, FENCED), (Meaning.REBALANCED, REBALANCED)):
            if any(isinstance(cause, kinds) for cause in causes):
                return Fault(meaning, reason)
        return Fault(Meaning.OTHER, reason)

    def named_brokers(self, timeout_s: float) -> int:
        """Return how many brokers the cluster names when it is asked who it is; it may be none for a moment."""
        client = KafkaClient(**connection(self.settings, "check"))
        try:
            answer = client.cluster.request_update()
            client.poll(future=answer, timeout_ms=milliseconds(timeout_s))
            if isinstance(answer.exception, errors.MetadataEmptyBrokerList):
                return 0
            if not (answer.is_done and answer.succeeded()):
                raise answer.exception if answer.is_done else errors.NoBrokersAvailable
            return len(client.cluster.brokers())
        finally:
            client.close()

    def record_writer(self) -> PythonWriter:
        """Return a new producer."""
        return PythonWriter(self.settings)

    def transaction_writer(self, purpose: str, transactional_id: str) -> PythonTransactions:
        """Return a new transactional producer, which has fenced nobody yet."""
        return PythonTransactions(self.settings, purpose, transactional_id)

    def group_member(self, group: str, topics: Sequence[str], member: str, *, from_beginning: bool) -> PythonMember:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        return PythonMember(self.settings, group, topics, member, from_beginning=from_beginning)

    def partition_reader(self, topic: str, partition: int, *, committed: bool) -> PythonReader:
        """Return a reader; with `committed` off it also sees what open and aborted transactions wrote."""
        return PythonReader(self.settings, topic, partition, committed=committed)

    def cluster_admin(self) -> PythonAdmin:
        """Return what asks the cluster."""
        return PythonAdmin(self.settings)


def make(settings: KafkaSettings) -> Client:
    """Return the client of some settings."""
    return PythonClient(settings)


def _forbidden(cause: BaseException) -> Fault:
    resource = next((kind for kind in RESOURCES if kind in type(cause).__name__), "")
    names = cause.args[0] if cause.args and isinstance(cause.args[0], (list, tuple, set, frozenset)) else ()
    return Fault(Meaning.FORBIDDEN, str(cause), RESOURCES.get(resource, "this"), tuple(map(str, names)))
