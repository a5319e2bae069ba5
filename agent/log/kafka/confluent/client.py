"""confluent-kafka as a client of the log: what it makes, and what its errors mean.

Its defects that shape this folder, of versions up to 2.16.1, each seen here or in its issues (P: confluent-kafka-python,
R: librdkafka), with the way round:

- `Producer.poll` waits its whole time though acknowledgements came (P2215): it is called in steps of 0.2 s.
- `consume(n, timeout)` waits until there are n records, or since 2.13 gives up after 0.2 s (P2205): `poll` waits for the
  first record, `consume` with no time takes the rest.
- `commit` has no deadline and waits for a coordinator that is away; `close`, and the end of any client, may wait for ever
  for a broker that does not answer (R4519, R3740, P107): both run in a thread with a deadline, which is left to itself.
- `Producer.close` writes what is queued before it ends: it is never called, the queue is purged.
- A transactional call may hang for ever after a fatal error (R4420), and after one that timed out the producer cannot
  be trusted (R3227, R3444): the deadline and the end of the producer are those of every client, in `kafka.checkpoint`.
- `seek` right after an assignment, or in its callback, is refused (R3959, P373, P1669), and a pause before the first
  record was once lost (R1802): nothing is assigned in the callback, and `start` assigns with the offsets.
- Records of partitions that a rebalance took may still come in the same call (P1013): a poll with a new assignment
  returns no records.
- The partition of a key is another than that of Java and kafka-python (P1103): see `partitioner`.
- A group's regular expressions are those of C, and match a part of a name: names are matched here.
- What a callback raises is raised by whatever call runs it, and other callbacks are lost: ours raise nothing.
- Errors that end by themselves come as records: a topic that is not there yet, a member that worked too long (P552).
- The metadata of a committed position gets a NUL at its end, and is read to the next one (R4649): see `kafka.metadata`.
- Nobody can ask whether a transactional id may be used without fencing its owner: it cannot be told beforehand.
- A time of 0 means now: a record cannot be of the first millisecond of 1970.
- A fatal error, as that of a fenced producer, becomes a SystemError where a callback runs after it: its cause is read.
  A callback may also lose it, then the next call tells it again: see `producer`.
- It writes to standard error where it has no logger. Ctrl-C is seen every 0.2 s since 2.13 (P209).
"""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from agent.log.kafka.client import Client, Fault
from agent.log.kafka.confluent.admin import ConfluentAdmin
from agent.log.kafka.confluent.arguments import connection
from agent.log.kafka.confluent.consumer import ConfluentMember
from agent.log.kafka.confluent.faults import NoBrokerError, code_of, fault_of
from agent.log.kafka.confluent.producer import ConfluentTransactions, ConfluentWriter
from agent.log.kafka.confluent.reading import ConfluentReader
from agent.log.kafka.settings import KafkaSettings


class ConfluentClient:
    """Clients of confluent-kafka for one cluster."""

    reads_metadata_exactly = False

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings

    def fault(self, error: BaseException) -> Fault:
        """Return what an error means."""
        return fault_of(error)

    def named_brokers(self, timeout_s: float) -> int:
        """Return how many brokers the cluster names when it is asked who it is; it may be none for a moment."""
        reasons: list[KafkaError] = []
        arguments: dict[str, Any] = {**connection(self.settings, "check"), "error_cb": reasons.append}
        admin = AdminClient(arguments)
        try:
            return len(admin.list_topics(timeout=timeout_s).brokers)
        except KafkaException as error:
            if code_of(error) == KafkaError._PARTIAL:  # noqa: SLF001 - its public name
                return 0
            admin.poll(0)
            causes = [one.str() for one in reasons if one.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 - see above
            raise NoBrokerError(*causes[-1:]) from error

    def record_writer(self) -> ConfluentWriter:
        """Return a new producer."""
        return ConfluentWriter(self.settings)

    def transaction_writer(self, purpose: str, transactional_id: str) -> ConfluentTransactions:
        """Return a new transactional producer, which has fenced nobody yet."""
        return ConfluentTransactions(self.settings, purpose, transactional_id)

    def group_member(self, group: str, topics: Sequence[str], member: str, *, from_beginning: bool) -> ConfluentMember:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        return ConfluentMember(self.settings, group, topics, member, from_beginning=from_beginning)

    def partition_reader(self, topic: str, partition: int, *, committed: bool) -> ConfluentReader:
        """Return a reader; with `committed` off it also sees what open and aborted transactions wrote."""
        return ConfluentReader(self.settings, topic, partition, committed=committed)

    def cluster_admin(self) -> ConfluentAdmin:
        """Return what asks the cluster."""
        return ConfluentAdmin(self.settings)


def make(settings: KafkaSettings) -> Client:
    """Return the client of some settings."""
    return ConfluentClient(settings)
