"""Settings of predictions under the load of the moment."""

from typing import Annotated

from pydantic import Field

from agent.contracts.settings import Settings

ResourceName = Annotated[str, Field(min_length=1, max_length=64)]
RESOURCES = ("cpu_available", "memory_free", "bandwidth", "latency")


class StructuralModel(Settings):
    """One application's run time as an equation of what its hosts measure.

    >>> StructuralModel(application="^sor$", equation="work_s / cpu_available", parameters={"work_s": 60.0}).resources[0]
    'cpu_available'
    """

    application: str = Field(
        min_length=1, max_length=256, description="regular expression; it has to be found in the application's name"
    )
    equation: str = Field(
        max_length=4000,
        description="lines of `name = ...`, the last is the run time in seconds: + - * /, max, min, max_over(hosts, ...), "
        "min_over(hosts, ...), hosts, n, T(n), the parameters and the resources",
    )
    parameters: dict[str, float] = Field(
        default_factory=dict, max_length=64, description="numbers that the equation uses, such as those of a benchmark"
    )
    resources: tuple[ResourceName, ...] = Field(
        default=RESOURCES,
        max_length=32,
        description="names in the equation that hosts measure, in the units they come in",
    )


class UnderLoadSettings(Settings):
    """How a run time follows from the load of the hosts.

    >>> UnderLoadSettings().models
    ()
    """

    models: tuple[StructuralModel, ...] = Field(
        default=(),
        max_length=1000,
        description="structural models; the first whose application is found is an application's own. They are checked "
        "by `validate`; predictions do not use them yet",
    )
