"""The configuration as one frozen tree: every key, its default and its meaning. Unknown keys are refused.

What it nests: the settings of the processors (`agent.contracts`), of the brokers, the sources and the roles (beside this
file). `agent.config.load` reads a file into this tree, and finds what no single key can show to be wrong.
"""

from functools import cached_property
from typing import Literal

from pydantic import Field

from agent.config.alertmanager import AlertmanagerSettings
from agent.config.broker import KafkaSettings, TopicNames
from agent.config.references import ReferenceSettings
from agent.config.roles import (
    CollectorSettings,
    HttpSettings,
    LearnerSettings,
    LogSettings,
    MetricsSettings,
    PrivacySettings,
)
from agent.config.sources import Source, System, SystemName
from agent.contracts.feature_settings import FeatureSettings
from agent.contracts.hosts import HostSettings
from agent.contracts.profile_settings import ProfileSettings
from agent.contracts.settings import AlertSettings, IdentifySettings, JobSettings, RunTimeSettings, Settings
from agent.contracts.under_load import UnderLoadSettings


class Config(Settings):
    """The whole configuration.

    >>> Config().topics.deadletters
    'scalewatch.deadletters'
    >>> Config(systems={"exa": System(aliases=("exa-login",))}).identification.systems_by_alias
    {'exa-login': 'exa'}
    """

    systems: dict[SystemName, System] = Field(
        default_factory=dict, description="the systems by name; none: every system is accepted, all in partition 0"
    )
    other_systems: Literal["reject", "accept"] | None = Field(
        default=None,
        description="what to do with events of other systems: dead letters, or partition 0; "
        "not given: accept without systems, reject with them",
    )
    kafka: KafkaSettings = KafkaSettings()
    sources: tuple[Source, ...] = Field(default=(), description="what to read")
    reference: ReferenceSettings = ReferenceSettings()
    topics: TopicNames = TopicNames()
    identify: IdentifySettings = IdentifySettings()
    jobs: JobSettings = JobSettings()
    run_time: RunTimeSettings = RunTimeSettings()
    hosts: HostSettings = HostSettings()
    under_load: UnderLoadSettings = UnderLoadSettings()
    profiles: ProfileSettings = ProfileSettings()
    features: FeatureSettings = FeatureSettings()
    alerts: AlertSettings = AlertSettings()
    collector: CollectorSettings = CollectorSettings()
    learner: LearnerSettings = LearnerSettings()
    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings = MetricsSettings()
    alertmanager: AlertmanagerSettings = AlertmanagerSettings()
    privacy: PrivacySettings = PrivacySettings()
    log: LogSettings = LogSettings()

    @cached_property
    def identification(self) -> IdentifySettings:
        """The settings of identification with the aliases of all systems in them."""
        aliases = {alias: name for name, system in self.systems.items() for alias in system.aliases}
        return self.identify.model_copy(update={"systems_by_alias": {**self.identify.systems_by_alias, **aliases}})

    @property
    def accepts_other_systems(self) -> bool:
        """Whether events of a system that is not listed are taken."""
        return self.other_systems == "accept" if self.other_systems else not self.systems

    @cached_property
    def partitions_by_system(self) -> dict[str, int]:
        """The journal's partition of each listed system and of each of its aliases."""
        names = {name: name for name in self.systems} | self.identification.systems_by_alias
        return {alias: self.systems[name].partition for alias, name in names.items() if name in self.systems}

    def journal_partition(self, system: str) -> int | None:
        """Return the journal's partition for a system or one of its aliases; None where it is not accepted.

        >>> Config().journal_partition("anything")
        0
        >>> Config(systems={"exa": System(partition=0)}).journal_partition("other") is None
        True
        """
        return self.partitions_by_system.get(system, 0 if self.accepts_other_systems else None)
