"""`scalewatch topics` and `run` look at how the topics really are, on a real broker: settings, and rights."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from agent.app.kafka import connected
from agent.cli import main
from agent.config.load import load
from agent.config.topics import Resource, own_topics, rights
from agent.log.kafka.client import ClientName
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Marker, TopicSettings
from tests.kit.agent_process import READY_S, AgentProcess, until, write_config
from tests.kit.agent_topics import AgentTopics
from tests.kit.kafka_broker import PASSWORD, USER, KafkaBroker

pytestmark = pytest.mark.kafka

SOON_S = 60.0  # nothing takes so long where it works
MARKER = Marker(offset=1, number=1, count=50, agent_version="0", config_hash="0", journal_partitions=1, now_ms=1)
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # whoever needs no login: the broker itself, and the operator of this test
}


def topics(config: Path) -> Result:
    return CliRunner().invoke(main, ["topics", "-c", str(config)])


def set_topic(bootstrap: str, topic: str, **settings: str) -> None:
    """Give a topic other settings, as an operator does; a full stop is written as two underscores."""
    changed = {name.replace("__", "."): value for name, value in settings.items()}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=changed)])
    admin.close()


def test_topics_with_delete_and_a_minute_of_retention_are_called_wrong(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> None:
    source, prefix = fresh("raw"), fresh("settings")
    file = write_config(tmp_path, kafka.bootstrap, prefix, [{"topics": [source]}], client)
    config = load(str(file))
    with AgentTopics(config) as made:
        made.log.create([*own_topics(config), TopicSettings(source, 1, compacted=False)])
    good = topics(file)
    assert (good.exit_code, good.stderr) == (0, "")
    for topic in own_topics(config):
        set_topic(kafka.bootstrap, topic.name, cleanup__policy="delete", retention__ms="60000")
    wrong = topics(file)
    assert wrong.exit_code == 1
    lines = [line for line in wrong.stdout.splitlines() if line.startswith(prefix)]
    assert len(lines) == len(own_topics(config))
    assert all("0.000694 days" in line for line in lines)
    for topic in own_topics(config):
        assert f"The topic {topic.name} has " in wrong.stderr
    assert (
        f"{config.topics.journal} has retention.ms=60000 and needs 604800000: checkpoints are up to 600 s"
        in wrong.stderr
    )
    assert f"{config.topics.state} has cleanup.policy=delete and needs compact" in wrong.stderr
    with AgentProcess(file, role="learner") as agent:
        faults = wrong.stderr.count("scalewatch: ")
        until(lambda: agent.metric("learner", "scalewatch_topic_faults") == faults, READY_S, "the faults are exported")
        assert len(agent.lines("a topic has wrong settings")) == faults


def test_records_that_fit_into_a_topic_get_there_though_a_usual_batch_would_not(
    kafka: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> None:
    file = write_config(tmp_path, kafka.bootstrap, prefix := fresh("narrow"), [{"topics": [f"{prefix}-raw"]}], client)
    config = load(str(file))
    with connected(config) as log:
        log.create(own_topics(config))
    for topic in (config.topics.predictions, config.topics.state):
        set_topic(kafka.bootstrap, topic, cleanup__policy="compact", max__message__bytes="8192")
    with connected(config) as log:
        producer = log.producer()
        for number in range(200):
            producer.send(config.topics.predictions, b"x" * 1000, b"%d" % number)
        producer.flush(SOON_S)
        store = log.checkpoints(0)
        store.take_over()
        store.save({f"jobs/{number}": b"x" * 1000 for number in range(50)}, MARKER)
        read: list[bytes | None] = []
        log.read(config.topics.predictions, 0, lambda batch: read.extend(batch.values))
        assert read == [b"x" * 1000] * 200
        producer.send(config.topics.predictions, b"x" * 10_000, b"large")
        with pytest.raises(UnavailableError, match=r"(?i)message.*too.*large|larger than"):
            producer.flush(SOON_S)


@pytest.fixture(scope="module")
def guarded(kafka: KafkaBroker) -> Iterator[KafkaBroker]:  # the first broker decides whether this machine can run one
    """A broker on which only the operator may do anything."""
    with KafkaBroker(GUARDED) as broker:
        yield broker


def limited(guarded: KafkaBroker, prefix: str, folder: Path, client: ClientName) -> Path:
    """Make an agent's topics on the guarded broker, and return the configuration of a user who has no right to them."""
    file = write_config(folder, guarded.bootstrap, prefix, [{"topics": [f"{prefix}-raw"]}], client)
    operator = load(str(file))
    with AgentTopics(operator) as made:
        made.log.create([*own_topics(operator), TopicSettings(f"{prefix}-raw", 1, compacted=False)])
    settings = yaml.safe_load(file.read_text())
    (folder / "password").write_text(PASSWORD)
    security = {
        "protocol": "sasl_plaintext", "mechanism": "SCRAM-SHA-256", "username": USER,
        "password": {"file": str(folder / "password")},
    }  # fmt: skip
    settings["kafka"] = {"bootstrap": guarded.addresses["SASL_PLAINTEXT"], "security": security, "client": client}
    file.write_text(yaml.safe_dump(settings))
    return file


def test_rights_to_topics_and_groups_are_named_until_they_are_granted(
    guarded: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path, client: ClientName
) -> None:
    file = limited(guarded, prefix := fresh("guarded"), tmp_path, client)
    refused = topics(file)
    assert refused.exit_code == 1
    assert f"The user may not Read and Describe the topic {prefix}-raw (read the events)" in refused.stderr
    assert f"The user may not Read and Describe the group {prefix}-learner (the learners' group)" in refused.stderr
    assert f"{prefix}.journal" in refused.stdout
    for resource in ("topic", "group", "transactional-id"):
        grant(guarded.bootstrap, file, resource)
    until(lambda: topics(file).exit_code == 0, SOON_S, lambda: topics(file).stderr)


def test_a_right_to_transactional_ids_is_named_until_it_is_granted(
    guarded: KafkaBroker, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    file = limited(guarded, prefix := fresh("guarded"), tmp_path, "kafka-python")  # the other client cannot ask
    grant(guarded.bootstrap, file, "topic")
    grant(guarded.bootstrap, file, "group")
    until(lambda: topics(file).stderr.count("scalewatch: ") == 1, SOON_S, lambda: topics(file).stderr)
    alone = topics(file)
    assert alone.exit_code == 1
    writer = (
        f"The user may not Write and Describe the transactional-id {prefix}.state-0 (one writer of each shard's state)"
    )
    assert writer in alone.stderr
    with AgentProcess(file, role="learner") as agent:
        until(lambda: agent.lines("a topic has wrong settings"), READY_S, agent.output)
        assert writer in agent.lines("a topic has wrong settings")[0]["fault"]
    grant(guarded.bootstrap, file, "transactional-id")
    until(lambda: topics(file).exit_code == 0, SOON_S, lambda: topics(file).stderr)


def grant(bootstrap: str, file: Path, resource: Resource) -> None:
    """Grant what `scalewatch topics --acls` prints about one kind of resource."""
    kinds = {
        "topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional-id": ResourceType.TRANSACTIONAL_ID,
    }  # fmt: skip
    operations = {
        "Read": ACLOperation.READ, "Write": ACLOperation.WRITE, "Describe": ACLOperation.DESCRIBE,
        "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
    }  # fmt: skip
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_acls(
        [
            ACL(
                f"User:{USER}", "*", operations[operation], ACLPermissionType.ALLOW,
                ResourcePattern(
                    kinds[resource], right.name,
                    ACLResourcePatternType.PREFIXED if right.prefixed else ACLResourcePatternType.LITERAL,
                ),
            )
            for right in rights(load(str(file))) if right.resource == resource
            for operation in right.operations
        ]
    )  # fmt: skip
    admin.close()
