"""The compose file as it is read: anchors and merges resolved, variables replaced, mounts as paths of the sources."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.kit.kafka_broker import KafkaBroker

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "deploy" / "compose"
_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")


def text() -> str:
    """Return the file as it is written."""
    return (FOLDER / "compose.yaml").read_text()


def variables() -> dict[str, str]:
    """Return the variables of the file with their defaults."""
    return dict(_VARIABLE.findall(text()))


def services(given: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the services by name, with these variables."""
    values = {**variables(), **(given or {})}
    replaced = _VARIABLE.sub(lambda found: values[found.group(1)], text())
    found: dict[str, dict[str, Any]] = yaml.safe_load(replaced)["services"]
    return found


def mounts(service: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files and folders of the sources that a service sees, by their paths in its container."""
    parts = (volume.split(":") for volume in service.get("volumes", ()))
    return {part[1]: (FOLDER / part[0]).resolve() for part in parts if part[0].startswith(".")}


def broker_properties() -> dict[str, str]:
    """Return what the broker's environment makes of its properties, as the image's own start does: _ is a dot."""
    given = services()["kafka"]["environment"]
    named = {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in given.items()}
    return {name: str(value) for name, value in named.items() if name not in {"cluster.id", "heap.opts"}}


def broker() -> KafkaBroker:
    """Return a broker with the properties of the file, but on ports of this machine and in a folder of its own."""
    made, given = KafkaBroker(), broker_properties()
    free = iter(f"127.0.0.1:{port}" for port in made._ports.values())  # the first is where clients without a name ask
    wanted = dict(listener.split("://") for listener in given["listeners"].split(","))
    places = {name: next(free) for name in wanted if name != given["controller.listener.names"]}
    controller = f"127.0.0.1:{made._ports['CONTROLLER']}"
    advertised = [listener.split("://")[0] for listener in given["advertised.listeners"].split(",")]
    here = {
        "listeners": _listeners({**places, given["controller.listener.names"]: controller}),
        "advertised.listeners": _listeners({name: places[name] for name in advertised}),
        "controller.quorum.voters": f"{given['node.id']}@{controller}",
        "log.dirs": str(made.folder / "data"),
    }
    made._settings = {**given, **here}
    return made


def _listeners(places: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{place}" for name, place in places.items())
