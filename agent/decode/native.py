"""Native events: one JSON object with a `type`, or an array of them."""

from collections.abc import Callable
from typing import Any, Final

from agent.contracts.decoding import Decode, Decoded
from agent.contracts.events import (
    STATES,
    SUCCESS,
    UNITS,
    Evidence,
    Identity,
    JobCompleted,
    JobEvent,
    JobStarted,
    PredictionRequested,
)
from agent.decode.checks import HOSTS_MAX, run_identity
from agent.decode.message import DecodeOne, whole
from agent.decode.native_messages import Completed, Facts, Identified, Requested, Started, read_native
from agent.decode.native_network import NetworkTold, network_event
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid, shown
from agent.decode.times import check_bounds, moment_ms


def native_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of native messages.

    A job.completed needs `n` and `unit`, its start or its end, and `run_time_s` unless it has both. Without a `state`
    it has COMPLETED, or FAILED where its exit code is not 0.

    >>> decode = native_decoder(DecodeOptions())
    >>> message = b'{"type": "job.completed", "system": "exa", "job_id": "812", "n": 64, "unit": "nodes"'
    >>> decoded = decode(message + b', "end": "2026-11-20T10:31:12Z", "run_time_s": 1872}', 1795170700000)
    >>> decoded.events[0].run_id, decoded.events[0].evidence.sizes
    ('exa/812@1795168800000', {'nodes': 64.0})
    """
    return whole(native_object(options), options)


def native_object(options: DecodeOptions) -> DecodeOne:
    """Return the decoder of one native object; see `native_decoder` for what it takes.

    >>> decoded = Decoded()
    >>> native_object(DecodeOptions())(
    ...     b'{"type": "identity", "system": "exa", "job_id": "812", "source": "xalt", "module": "lammps"}', 0, decoded
    ... )
    >>> decoded.events[0].evidence.module
    'lammps'
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        message, unknown_fields = read_native(value)
        decoded.events.append(_EVENTS[type(message)](message, received_ms, options))
        decoded.unknown_fields += unknown_fields

    return decode_one


def _started(message: Started, received_ms: int, options: DecodeOptions) -> JobStarted:
    start_ms = moment_ms(message.start)
    check_bounds(start_ms, start_ms, received_ms, options)
    job_id = str(message.job_id)
    return JobStarted(
        system=message.system,
        job_id=job_id,
        run_id=run_identity(message.system, job_id, start_ms),
        start_ms=start_ms,
        evidence=_evidence(message, _sizes(message), options),
    )


def _completed(message: Completed, received_ms: int, options: DecodeOptions) -> JobCompleted:
    sizes = _sizes(message)
    if not sizes:
        raise invalid("missing-field", "A completed job needs n and unit.")
    start_ms, end_ms, run_time_s = _times(message)
    check_bounds(start_ms, end_ms, received_ms, options)
    job_id = str(message.job_id)
    return JobCompleted(
        system=message.system,
        job_id=job_id,
        run_id=run_identity(message.system, job_id, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=run_time_s,
        state=_state(message, run_time_s),
        evidence=_evidence(message, sizes, options),
        exit_code=message.exit_code,
        failed_host=message.failed_host,
    )


def _identified(message: Identified, _received_ms: int, options: DecodeOptions) -> Identity:
    return Identity(
        system=message.system,
        job_id=str(message.job_id),
        source=message.source,
        evidence=_evidence(message, {}, options),
    )


def _requested(message: Requested, _received_ms: int, options: DecodeOptions) -> PredictionRequested:
    return PredictionRequested(
        system=message.system,
        request_id=str(message.request_id),
        n=tuple(message.n) if isinstance(message.n, list) else (message.n,),
        evidence=_evidence(message, {}, options),
        unit=None if message.unit is None else _unit(message.unit),
        features=message.features or {},
    )


_EVENTS: Final[dict[type, Callable[[Any, int, DecodeOptions], JobEvent]]] = {
    Started: _started,
    Completed: _completed,
    Identified: _identified,
    Requested: _requested,
    NetworkTold: network_event,
}


def _evidence(message: Facts, sizes: dict[str, float], options: DecodeOptions) -> Evidence:
    hosts = message.hosts
    if hosts and len(hosts) > 1 and sum(map(len, hosts)) > HOSTS_MAX:
        raise invalid("hosts", f"The hosts have more than {HOSTS_MAX} characters; send them as host lists.")
    return Evidence(
        sizes=sizes,
        application=message.application or None,
        input=message.input or None,
        executable=message.executable or None,
        module=message.module or None,
        container=message.container or None,
        job_name=message.job_name or None,
        user=message.user or None,
        account=message.account or None,
        partition=message.partition or None,
        qos=message.qos or None,
        work_dir=message.work_dir if options.keep_paths else None,
        script=message.script if options.keep_script else None,
        comment=message.comment if options.keep_comment else None,
        hosts=tuple(hosts) if hosts else (),
        time_limit_s=message.time_limit_s or None,
        submit_ms=None if message.submit is None else moment_ms(message.submit),
        exclusive=message.exclusive,
        array_job_id=None if message.array_job_id is None else str(message.array_job_id),
        attributes=message.attributes or {},
    )


def _sizes(message: Started | Completed) -> dict[str, float]:
    if message.n is None and message.unit is None:
        return {}
    if message.n is None or message.unit is None:
        raise invalid("missing-field", "n and unit belong together, and one of them is missing.")
    return {_unit(message.unit): message.n}


def _unit(unit: str) -> str:
    if unit not in UNITS:
        raise invalid("unit", f"The unit {shown(unit)} is none of {', '.join(UNITS)}.")
    return unit


def _times(message: Completed) -> tuple[int, int, float]:
    start_ms = None if message.start is None else moment_ms(message.start)
    end_ms = None if message.end is None else moment_ms(message.end)
    run_time_s = message.run_time_s
    if start_ms is None and end_ms is None:
        raise invalid("missing-field", "A completed job needs its start or its end: they identify the run.")
    if run_time_s is None:
        if start_ms is None or end_ms is None:
            raise invalid("missing-field", "A completed job needs run_time_s, or start and end.")
        run_time_s = (end_ms - start_ms) / 1000
    if start_ms is None:
        start_ms = (end_ms or 0) - round(run_time_s * 1000)
    if end_ms is None:
        end_ms = start_ms + round(run_time_s * 1000)
    if end_ms < start_ms:
        raise invalid("out-of-range", "The end is before the start.")
    return start_ms, end_ms, run_time_s


def _state(message: Completed, run_time_s: float) -> str:
    state = message.state
    if state is None:
        state = "FAILED" if message.exit_code else SUCCESS
    if state not in STATES:
        raise invalid("state", f"The state {shown(state)} is none of {', '.join(STATES)}.")
    if state == SUCCESS and run_time_s <= 0:
        raise invalid("out-of-range", "A completed run takes more than 0 s.")
    return state
