"""Measured costs per unit of work, from which `scalewatch plan` computes its estimates.

A file contains each cost with its benchmark, commit, time and processor. One file is part of the package; a site may measure
its own costs.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from processors.contracts.errors import ConfigError

SCHEMA: Final = "scalewatch.measurements/1"
SHIPPED: Final = "measurements.json"


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cost per unit: seconds of processor time or bytes, the benchmark that measured the cost, and the machine used."""

    value: Annotated[float, msgspec.Meta(gt=0)]
    bench: str
    commit: str
    time: str
    processor: str


class Measurements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of costs by name; each name is a field of `Costs`."""

    schema: Literal["scalewatch.measurements/1"]
    figures: dict[str, Measurement]


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Costs per unit: seconds of a core, bytes of memory, bytes of messages and of stored state."""

    # costs of a collector
    sample_s: float  # per sample in its own record, the most expensive form
    collected_job_s: float  # per completion
    window_bytes: float
    window_sample_bytes: float  # per sample in a window
    # costs of a learner
    job_event_s: float  # per start or completion, including its share of ticks, fits, settlement and checkpoints
    resource_minute_s: float  # per resource of a host
    published_resource_s: float  # per resource of a published host, once
    process_bytes: float  # memory of the process after its start
    learned_resource_bytes: float  # per resource of a host
    saved_resource_bytes: float  # per resource of a host while its state is being saved
    application_in_use_bytes: float
    application_at_rest_bytes: float
    remembered_run_bytes: float  # per run of an application whose state is not decoded
    remembered_run_in_use_bytes: float
    # costs of the journal
    host_minute_bytes: float  # excludes the resources
    host_minute_resource_bytes: float
    journalled_job_bytes: float
    tick_bytes: float
    # sizes of outputs: of one message, or of all messages about a job
    run_bytes: float
    prediction_bytes: float
    job_prediction_bytes: float
    written_predictions_bytes: float
    written_job_predictions_bytes: float
    host_report_bytes: float  # excludes the resources
    host_report_resource_bytes: float
    # sizes in the state topic
    state_resource_bytes: float
    state_application_bytes: float


def shipped() -> Measurements:
    """Return the costs in the file of the package."""
    return _decoded(files("agent.describe").joinpath(SHIPPED).read_bytes(), SHIPPED)


def measured(path: Path | None = None) -> Measurements:
    """Return the costs in a site's file; missing costs come from the package.

    Raise ConfigError if the file cannot be used.
    """
    site = {} if path is None else read(path).figures
    return Measurements(SCHEMA, {**shipped().figures, **site})


def read(path: Path) -> Measurements:
    """Return the costs in a file.

    Raise ConfigError if the file cannot be used.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from error
    return _decoded(content, str(path))


def costs(measurements: Measurements) -> Costs:
    """Return the values of the costs, without the benchmark and the machine of each measurement."""
    return Costs(**{name: figure.value for name, figure in measurements.figures.items()})


def encoded(figures: Mapping[str, Measurement]) -> bytes:
    """Return a cost file as JSON bytes, with the measurements in the order of `Costs`."""
    ordered = {name: figures[name] for name in Costs.__struct_fields__ if name in figures}
    return msgspec.json.format(msgspec.json.encode(Measurements(SCHEMA, ordered)), indent=1) + b"\n"


def _decoded(content: bytes, name: str) -> Measurements:
    try:
        measurements = msgspec.json.decode(content, type=Measurements)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{name}: is not a file of measurements: {error}.") from error
    unknown = measurements.figures.keys() - set(Costs.__struct_fields__)
    if unknown:
        raise ConfigError(f"{name}: {min(unknown)} is not a cost that plans use.")
    return measurements
