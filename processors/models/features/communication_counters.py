"""Communication features from the counters of network adapters, independent of their vendor.

HPE's Cassini counts octets and packets sent by traffic class, and cycles in which sending was paused. An InfiniBand port
counts data in words of four octets, packets, and ticks in which it had data but could not send (InfiniBand Architecture
Specification 1, PortCounters and PortCountersExtended). Jain et al. call waits per packet the delay of a link.
"""

from collections.abc import Mapping
from typing import Final

SENT: Final[Mapping[str, float]] = {
    "hni_sts_tx_ok_octets": 1.0,
    "xmit_data": 4.0,
    "xmit_bytes": 1.0,  # as node_exporter has it
}
"""Counters of sent data, with the bytes of their unit."""
PACKETS: Final = ("hni_pkts_sent_by_tc_", "xmit_packets")
WAITS: Final = ("hni_tx_paused_", "xmit_wait")
"""Names of the counters of packets and of waits; a name that ends in ``_`` is the prefix of counters by class."""
NIC_BYTES: Final = "nic_bytes"
NIC_PACKETS: Final = "nic_packets"
NIC_DELAY: Final = "nic_delay"
BUSIEST_BYTES: Final = "nic_busiest_bytes"
BUSIEST_WAITS: Final = "nic_busiest_waits"
COUNTED: Final = (NIC_BYTES, NIC_PACKETS, NIC_DELAY, BUSIEST_BYTES, BUSIEST_WAITS)
BUSIEST: Final[Mapping[str, str]] = {"bytes": BUSIEST_BYTES, "waits": BUSIEST_WAITS}
"""Figures of the busiest adapter, and their features."""


def busiest_of(counter: str) -> tuple[str, float] | None:
    """Return the figure in BUSIEST that an adapter's counter adds to, and its factor; None for other counters.

    >>> busiest_of("xmit_data"), busiest_of("hni_tx_paused_3"), busiest_of("rcv_data")
    (('bytes', 4.0), ('waits', 1.0), None)
    """
    if counter in SENT:
        return "bytes", SENT[counter]
    return ("waits", 1.0) if _begins(counter, WAITS) else None


def counted_features(
    rates: Mapping[str, float], run_time_s: float, busiest: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return features of a run of `run_time_s` from the rates of its adapters' counters, per second and host.

    Bytes and packets are those that a host sent in the whole run, the delay is waits per packet. `busiest` are rates per
    second of the busiest adapter, by BUSIEST. Features without a counter are left out.

    >>> counted_features({"xmit_data": 250.0, "xmit_packets": 10.0, "xmit_wait": 5.0, "rcv_data": 1.0}, 100.0)
    {'nic_bytes': 100000.0, 'nic_packets': 1000.0, 'nic_delay': 0.5}
    >>> counted_features({}, 100.0, {"bytes": 3000.0})
    {'nic_busiest_bytes': 300000.0}
    """
    features: dict[str, float] = {}
    sent = [octets * rates[name] for name, octets in SENT.items() if name in rates]
    packets, waits = _total(rates, PACKETS), _total(rates, WAITS)
    if sent:
        features[NIC_BYTES] = max(sent) * run_time_s
    if packets is not None:
        features[NIC_PACKETS] = packets * run_time_s
    if packets is not None and waits is not None:
        features[NIC_DELAY] = waits / packets if packets > 0 else 0.0
    return features | {BUSIEST[name]: rate * run_time_s for name, rate in (busiest or {}).items() if name in BUSIEST}


def _total(rates: Mapping[str, float], beginnings: tuple[str, ...]) -> float | None:
    """Return the sum of the counters with these names or prefixes, None if there are none."""
    matching = [rate for name, rate in rates.items() if _begins(name, beginnings)]
    return sum(matching) if matching else None


def _begins(name: str, beginnings: tuple[str, ...]) -> bool:
    return any(name.startswith(prefix) if prefix.endswith("_") else name == prefix for prefix in beginnings)
