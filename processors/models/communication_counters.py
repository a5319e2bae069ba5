"""What network adapters of a run's hosts counted, as features of its communication, whoever made them.

HPE's Cassini counts octets and packets that were sent, by traffic class, and cycles in which sending was paused; a port of
InfiniBand data in words of four octets, packets, and ticks in which it had data and could not send (InfiniBand Architecture
Specification 1, PortCounters and PortCountersExtended). A wait per packet is what Jain et al. call the delay of a link.
"""

from collections.abc import Mapping
from typing import Final

SENT: Final[Mapping[str, float]] = {
    "hni_sts_tx_ok_octets": 1.0,
    "xmit_data": 4.0,
    "xmit_bytes": 1.0,  # as node_exporter has it
}
"""Counters of what was sent, with the bytes of their unit."""
PACKETS: Final = ("hni_pkts_sent_by_tc_", "xmit_packets")
WAITS: Final = ("hni_tx_paused_", "xmit_wait")
"""How the names of counters of packets, and of waits, begin: one that ends in ``_`` is counted by class."""
NIC_BYTES: Final = "nic_bytes"
NIC_PACKETS: Final = "nic_packets"
NIC_DELAY: Final = "nic_delay"
COUNTED: Final = (NIC_BYTES, NIC_PACKETS, NIC_DELAY)


def counted_features(rates: Mapping[str, float], run_time_s: float) -> dict[str, float]:
    """Return features of a run of `run_time_s` from rates of its adapters' counters per second and host, by their names.

    Bytes and packets are those that a host sent in the whole run, the delay is waits per packet. What is not counted is left
    out.

    >>> counted_features({"xmit_data": 250.0, "xmit_packets": 10.0, "xmit_wait": 5.0, "rcv_data": 1.0}, 100.0)
    {'nic_bytes': 100000.0, 'nic_packets': 1000.0, 'nic_delay': 0.5}
    """
    found: dict[str, float] = {}
    sent = [octets * rates[name] for name, octets in SENT.items() if name in rates]
    packets, waits = _total(rates, PACKETS), _total(rates, WAITS)
    if sent:
        found[NIC_BYTES] = max(sent) * run_time_s
    if packets is not None:
        found[NIC_PACKETS] = packets * run_time_s
    if packets is not None and waits is not None:
        found[NIC_DELAY] = waits / packets if packets > 0 else 0.0
    return found


def _total(rates: Mapping[str, float], beginnings: tuple[str, ...]) -> float | None:
    """Return the sum of the counters whose names begin so, None where there is none."""
    known = [
        rate
        for name, rate in rates.items()
        if any(name.startswith(each) if each.endswith("_") else name == each for each in beginnings)
    ]
    return sum(known) if known else None
