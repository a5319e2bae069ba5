"""Mappings of a site's own: what a metric becomes, also where it is of a part of the host."""

from agent.app.compose import telemetry_options
from agent.config.tree import Config, Source
from agent.decode.telemetry.line_protocol import line_protocol_decoder
from processors.contracts.telemetry import MetricMapping, SeriesIndex, Telemetry

LINE = b"ipmi_sensor,host=n1,name=pwr_consumption,socket=1 value=412 1795168800000000000"


def resources(**mapping: object) -> list[str]:
    metric = MetricMapping.model_validate({"measurement": "ipmi_sensor", "field": "value", **mapping})
    source = Source(topics=("raw",), format="line-protocol", system="exa", telemetry=Telemetry(metrics=(metric,)))
    index = SeriesIndex(9)
    batch = line_protocol_decoder(telemetry_options(Config(sources=(source,)), source))([LINE], [1795168800000], index)
    assert batch.samples.value.tolist() == [412.0]
    return [index[number].resource for number in range(len(index))]


def test_a_metric_can_be_the_power_of_the_whole_host() -> None:
    assert resources(resource="power_w", peer="system", only={"name": "pwr_consumption"}) == ["power_w>system"]


def test_a_metric_can_be_of_one_of_several_parts_of_a_host() -> None:
    assert resources(resource="power_w", peer="cpu", part="socket") == ["power_w>cpu:1"]


def test_a_metric_without_a_part_has_its_instance_alone() -> None:
    assert resources(resource="inlet", instance="socket") == ["inlet>1"]
