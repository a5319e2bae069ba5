"""Imports run one way, without cycles, and few files know the world outside."""

import ast
import graphlib
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.kit.sources import PRODUCT, Module, lines, module, modules

CONTRACTS = "processors.contracts"

# floors of the house: each imports from those below it alone
FLOORS = ("processors", "sinks", "agent")

# prefix of a module -> prefixes of what it may import of ours, besides its own package and the floors below
OURS: dict[str, tuple[str, ...]] = {
    "processors.models": (),
    CONTRACTS: (),
    "processors": ("processors",),
    "sinks": ("processors", "sinks"),
    "agent": (),
    "agent.clock": (),
    "agent.collector": (CONTRACTS, "agent.clock", "agent.config", "agent.decode.avro", "processors.windows"),
    # an equation in a configuration is read by the parser that will evaluate it, and a schema by what will read messages by it;
    # whether a regular expression is fast is measured
    "agent.config": (
        CONTRACTS,
        "agent.clock",
        "agent.decode.avro",
        "agent.identify",
        "agent.reference",
        "processors.models.structure",
    ),
    "agent.decode": (CONTRACTS,),
    "agent.describe": (CONTRACTS, "agent.config", "agent.decode", "agent.reports"),
    "agent.identify": (CONTRACTS,),
    # the learner names the types of the fold that it is given, and makes none
    "agent.learner": (CONTRACTS, "agent.collector", "processors.pipeline.shard", "processors.store"),
    "agent.log": (CONTRACTS,),
    "agent.reference": (CONTRACTS,),
    "agent.reports": ("processors", "sinks.web"),
    "agent.simulation": (CONTRACTS,),
    # the only ones that put the parts together
    "agent.app": PRODUCT,
    "agent.cli": PRODUCT,
}

# the same for what others wrote, where it is limited at all
OTHERS: dict[str, frozenset[str]] = {
    "processors.models": frozenset({"numpy", "scipy"}),
    CONTRACTS: frozenset({"msgspec", "numpy", "pydantic"}),
    "processors": frozenset({"msgspec", "numpy", "scipy"}),
}

# a client library -> the folder that adapts it; what is decided about Kafka stands above both and knows neither
KAFKA_CLIENTS = {"kafka": "agent/log/kafka/python/", "confluent_kafka": "agent/log/kafka/confluent/", "aiokafka": "-"}


def entry(name: str, table: Iterable[str]) -> str | None:
    """Return the longest prefix of a dotted name that the table holds."""
    return max((prefix for prefix in table if within(name, prefix)), key=len, default=None)


def within(name: str, prefix: str) -> bool:
    """Whether a dotted name is a module or in its package; `agent.app` also stands for `agent.app_demo`."""
    return name == prefix or name.startswith(f"{prefix}.") or (prefix == "agent.app" and name.startswith(prefix))


def imports(of: Module, known: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the dotted names that a module imports, anywhere in it; a name out of a package that is a module is one."""
    for node in ast.walk(of.tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            for name in node.names:
                inner = f"{source}.{name.name}"
                yield inner if inner in known else source


def wrong_directions(of: Module) -> Iterator[str]:
    prefix = entry(of.name, OURS)
    if prefix is None or (prefix == "agent" and of.name != "agent"):
        yield f"{of.path}: say in the table of this test what {of.name} may import"
        return
    known = frozenset(each.name for each in modules(*PRODUCT))
    allowed = (prefix, *OURS[prefix])
    for name in sorted(set(imports(of, known))):
        ours = name.split(".")[0] in PRODUCT and name != "processors"  # which holds the version and nothing else
        if ours and not any(within(name, each) for each in allowed):
            yield f"{of.path}: {of.name} must not import {name}"


def foreign_imports(of: Module) -> Iterator[str]:
    allowed = OTHERS.get(entry(of.name, OTHERS) or "")
    for name in imports(of):
        package = name.split(".")[0]
        ours_or_python = package in PRODUCT or package in sys.stdlib_module_names
        if allowed is not None and not ours_or_python and package not in allowed:
            yield f"{of.path}: {of.name} must not import {package}"


def stray_kafka(of: Module) -> Iterator[str]:
    for name in imports(of):
        folder = KAFKA_CLIENTS.get(name.split(".")[0])
        if folder is not None and not of.path.startswith(folder):
            yield f"{of.path}: {name} belongs into {folder}"


def cycle(all_modules: Iterable[Module]) -> list[str]:
    """Return a cycle of modules that import each other, empty where there is none."""
    known = frozenset(each.name for each in all_modules)
    graph = {each.name: {name for name in imports(each, known) if name in known} for each in all_modules}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def rooms(all_modules: Iterable[Module], floor: str) -> list[Module]:
    """Return the rooms of a floor, each as one module that imports what any of its modules does."""
    known = frozenset(each.name for each in all_modules)
    found: dict[str, set[str]] = {}
    for each in all_modules:
        if each.name.startswith(f"{floor}."):
            found.setdefault(_room(each.name), set()).update(map(_room, imports(each, known)))
    lines_of = {room: "\n".join(f"import {name}" for name in sorted(names - {room})) for room, names in found.items()}
    return [Module(room.replace(".", "/"), room, text) for room, text in lines_of.items()]


def _room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def relative(of: Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(of.tree))


def test_imports_run_one_way() -> None:
    assert lines(wrong_directions, *PRODUCT) == ""


def test_models_know_numpy_and_scipy_and_processors_little_more() -> None:
    assert lines(foreign_imports, *PRODUCT) == ""


def test_each_kafka_client_is_known_in_its_own_folder_alone() -> None:
    assert lines(stray_kafka, *PRODUCT) == ""


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle(modules(*PRODUCT)) == []


@pytest.mark.parametrize("floor", FLOORS)
def test_no_rooms_import_each_other_in_a_circle(floor: str) -> None:
    assert cycle(rooms(modules(*PRODUCT), floor)) == []


def test_the_floors_import_downwards_only() -> None:
    for i, floor in enumerate(FLOORS):
        above = FLOORS[i + 1 :]
        assert [
            (each.path, name) for each in modules(floor) for name in imports(each) if name.split(".")[0] in above
        ] == []


def test_processors_have_few_rooms() -> None:
    assert len(rooms(modules(*PRODUCT), "processors")) <= 17


def test_imports_name_the_whole_path() -> None:
    assert [each.path for each in modules(*PRODUCT) if relative(each)] == []


def test_nothing_of_the_product_knows_its_tests() -> None:
    assert [each.path for each in modules(*PRODUCT) if any(name.startswith("tests") for name in imports(each))] == []


def test_the_rules_find_what_they_forbid() -> None:
    up = module("processors/models/new.py", "from processors.jobs import Job\nimport msgspec\nimport kafka.errors\n")
    assert list(wrong_directions(up)) == [
        "processors/models/new.py: processors.models.new must not import processors.jobs"
    ]
    assert [problem.split()[-1] for problem in foreign_imports(up)] == ["msgspec", "kafka"]
    assert len(list(stray_kafka(up))) == 1
    assert len(list(wrong_directions(module("agent/new.py", "")))) == 1
    assert list(wrong_directions(module("agent/decode/new.py", "from agent.learner import learner"))) != []
    assert list(wrong_directions(module("agent/decode/new.py", "from agent import clock"))) != []
    assert list(wrong_directions(module("agent/decode/new.py", "from processors import __version__"))) == []
    assert list(wrong_directions(module("agent/app_demo.py", "from agent.learner import learner"))) == []


def test_a_circle_of_modules_is_found() -> None:
    first = module("sinks/first.py", "from sinks import second")
    second = module("sinks/second.py", "def late() -> None:\n    import sinks.first")
    assert set(cycle([first, second])) == {"sinks.first", "sinks.second"}
    third = module("sinks/web/one.py", "import sinks.table.two")
    assert set(cycle(rooms([third, module("sinks/table/two.py", "import sinks.web.three")], "sinks"))) == {
        "sinks.table",
        "sinks.web",
    }
    assert cycle([first, module("sinks/second.py", "")]) == []
