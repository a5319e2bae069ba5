"""A record of telemetry of each format, as its producer writes it, about the host nid1 of the system exa."""

from agent.decode.formats import FORMATS

GOOD = {name: form.sample for name, form in FORMATS.items() if form.samples is not None}
