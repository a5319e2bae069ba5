"""A record of telemetry of each format, as its producer writes it, about the host nid1 of the system exa."""

GOOD = {
    "native": b'{"type":"load","system":"exa","host":"nid1","resource":"load1","time":"2026-11-20T10:00:00Z","value":1}',
    "telegraf": b'{"fields":{"load1":1.5},"name":"system","tags":{"host":"nid1"},"timestamp":1795168800}',
    "line-protocol": b'system,host=nid1 load1=1.5,users=3i,note="a \\"b" 1795168800000000000',
    "ldms": b'{"timestamp":1795168800.5,"component_id":1,"load1min":1.5,"MemFree":7}',
    "collectd": b'[{"values":[1.5],"dsnames":["shortterm"],"time":1795168800.5,"host":"nid1","plugin":"load","type":"load"}]',
    "cray": b'{"Context":"x9c3s0b0","Events":[{"EventTimestamp":"2026-11-20T10:00:00Z","MessageId":"CrayTelemetry.Power","Oem":'
    b'{"Sensors":[{"Timestamp":"2026-11-20T10:00:00.951742109Z","Location":"x9c3s0b0n0","PhysicalContext":"Chassis","Value":"473.5"}]}}]}',
    "sonar": b'{"meta":{},"data":{"type":"sample","attributes":{"time":"2026-11-20T10:00:00Z","cluster":"exa","node":"nid1",'
    b'"system":{"load1":1.5,"existing_entities":9,"gpus":[{"power":300}]}}}}',
    "prometheus": b'{"labels":{"__name__":"node_load1","instance":"nid1:9100","job":"node"},"name":"node_load1",'
    b'"timestamp":"2026-11-20T10:00:00Z","value":"1.5"}',
    "otlp": b'{"resourceMetrics":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"nid1"}}]},"scopeMetrics":[{"metrics":'
    b'[{"name":"system.cpu.load_average.1m","gauge":{"dataPoints":[{"timeUnixNano":"1795168800000000000","asDouble":1.5}]}}]}]}]}',
    "examon": b"org/e4/cluster/exa/node/nid1/plugin/ganglia_pub/chnl/data/load_one 1.5;1795168800.000",
    "nws": b"1795168800 0.5 0.5 0.1 0.5 0.1 nid1:8060 nid1:8060 availableCpu",
}
