"""The adapter that did most of all on the hosts of a run, minute by minute: of Slingshot and of InfiniBand, over hosts and adapters."""

import pytest

from processors.contracts.events import JournalEvent
from processors.contracts.hosts import Profile
from tests.kit.profiled_hosts import Resources, ended, folded, in_time, minute, of_run, started, total

GB_MINUTE = 6e10  # a GB in each second


def slingshot(number: int, *gb_s: float, paused: tuple[float, ...] = ()) -> Resources:
    """Return the counters of adapters that sent so many GB a second, and in two classes paused so many thousand times a second."""
    found = {
        f"nic_total>cxi{at}:hni_sts_tx_ok_octets": total(1e12 + rate * GB_MINUTE * number)
        for at, rate in enumerate(gb_s)
    }
    for at, rate in enumerate(paused):
        found |= {f"nic_total>cxi{at}:hni_tx_paused_{of}": total(rate * 3e4 * number) for of in range(2)}
    return found


def run_of(hosts: dict[str, list[Resources]], first: int = -1) -> Profile:
    """Return the profile of a run of as many minutes as each host has resources for, from a minute before on."""
    minutes = len(next(iter(hosts.values()))) + first
    events = [minute(host, first + at, resources) for host, each in hosts.items() for at, resources in enumerate(each)]
    own: list[JournalEvent] = [started("1", 0, ",".join(hosts)), *events, ended("1", 0, minutes)]
    return of_run(folded(*in_time(own, until=minutes + 3)))


def test_the_adapter_that_sent_most_stands_beside_the_mean_over_hosts() -> None:
    found = run_of({
        "nid1": [slingshot(n, 1.0, 0.5) for n in range(-1, 10)],
        "nid2": [slingshot(n, 0.25, 3.0) for n in range(-1, 10)],
    })  # fmt: skip
    assert found.nic == {"hni_sts_tx_ok_octets": (1.5e9 + 3.25e9) / 2}
    assert found.nic_busiest == {"bytes": 3e9}


def test_each_minute_counts_by_the_adapter_that_did_most_in_it() -> None:
    """Two hosts send by turns: a GB a second in each minute is sent by one of them."""
    sent = {"nid1": [0.0], "nid2": [0.0]}
    for n in range(10):
        for at, host in enumerate(sent):
            sent[host].append(sent[host][-1] + GB_MINUTE * (n % 2 == at))
    found = run_of({
        host: [{"nic_total>cxi0:hni_sts_tx_ok_octets": total(each)} for each in values] for host, values in sent.items()
    })  # fmt: skip
    assert found.nic == {"hni_sts_tx_ok_octets": 0.5e9}
    assert found.nic_busiest == {"bytes": 1e9}


def test_what_an_adapter_waited_in_all_classes_adds_up_before_it_is_compared() -> None:
    found = run_of({
        "nid1": [slingshot(n, 1.0, 1.0, paused=(2.0, 0.5)) for n in range(-1, 10)],
        "nid2": [slingshot(n, 1.0, 1.0, paused=(1.0, 1.0)) for n in range(-1, 10)],
    })  # fmt: skip
    assert found.nic_busiest == {"bytes": 1e9, "waits": 2000.0}


def test_ports_of_infiniband_count_words_of_four_bytes() -> None:
    def at(n: int, rate: float) -> Resources:
        return {"nic_total>mlx5_0:xmit_data": total(rate * n), "nic_total>mlx5_0:xmit_wait": total(600.0 * n)}

    found = run_of({"nid1": [at(n, 6e9) for n in range(-1, 10)], "nid2": [at(n, 3e9) for n in range(-1, 10)]})
    assert found.nic_busiest == {"bytes": 4e8, "waits": 10.0}


def test_the_host_that_did_most_counts_in_minutes_that_are_only_in_part_the_runs_too() -> None:
    hosts = {host: [slingshot(n, rate) for n in range(-1, 2)] for host, rate in (("nid1", 1.0), ("nid2", 2.0))}
    events = [minute(host, at - 1, each) for host, readings in hosts.items() for at, each in enumerate(readings)]
    found = of_run(
        folded(*in_time([started("1", 0.25, "nid[1-2]"), *events, ended("1", 0.25, 0.75)], until=5)), start=0.25
    )
    assert found.short
    assert found.nic_busiest == {"bytes": pytest.approx(2e9)}


def test_other_counters_of_adapters_have_no_busiest_one() -> None:
    def at(n: int) -> Resources:
        return {"nic_total>cxi0:hni_sts_rx_ok_octets": total(6e9 * n), "nic_total>cxi0:ixe_rx_tcp_pkt": total(60.0 * n)}

    assert run_of({"nid1": [at(n) for n in range(-1, 10)]}).nic_busiest == {}
