"""Holds that names use the field's words, not private ones."""

import keyword
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
FLOORS: Final = ("agent", "processors", "sinks", "tests", "deploy")

# private word -> what the field says
BANNED: Final = {
    "told": "reported, predicted, published, known",
    "tell": "report",
    "tells": "reports",
    "telling": "report",
    "teller": "predictor",
    "say": "report",
    "says": "message",
    "said": "prediction, message",
    "desk": "shard state",
    "shelf": "store",
    "shelves": "stores",
    "lives": "job life cycles",
    "outlook": "prediction, forecast",
    "outlooks": "predictions, forecasts",
    "rival": "model comparison",
    "rivals": "model comparison",
    "bout": "score pair",
    "teaching": "transfer",
    "taught": "transferred",
    "sibling": "related curve",
    "siblings": "related curves",
    "histories": "similar runs",
    "letter": "dead letter",
    "letters": "dead letters",
    "trouble": "fault",
    "troubles": "faults",
    "sentence": "message, text",
    "sentences": "messages, texts",
    "refits": "fit queue",
    "pace": "rate limit, rate",
    "lone": "single",
    "hybrids": "feature sets",
    "widening": "band calibration",
    "roster": "row index",
    "numbering": "id allocator",
    "ledger": "profile store",
    "intake": "ingest",
    "presence": "occupancy",
    "trail": "resume offsets",
    "suspect": "candidate",
    "suspects": "anomaly candidates",
    "doubted": "excluded",
    "believed": "confirmed",
    "strange": "outlier, anomalous",
    "nought": "zero",
}
# words that are plain English in the sentence that is a test's name
BANNED_BUT_IN_TESTS: Final = {
    "asked": "requested, answered requests",
    "words": "text, messages",
    "unlike": "peer comparison",
    "beside": "reference",
    "together": "multivariate, joint",
    "lasts": "last values",
    "kept": "retained",
}
EXCEPTIONS: Final = {
    r"strange_?run|STRANGE_RUN|StrangeRun": "StrangeRun is the name of an alert",
    r"dead_?letters?|Dead_?Letters?|DEAD_LETTERS?": "a dead letter is the field's term",
    r"tell": "the position in a file, in the library",
}


def parts(name: str) -> list[str]:
    """Split a name in snake or camel case into its words."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def private_parts_of(name: str) -> list[str]:
    """Return the private words in a name."""
    left = name
    for pattern in EXCEPTIONS:
        whole = r"^tell$" if pattern == "tell" else rf"(?<![A-Za-z])(?:{pattern})(?![a-z])|(?:{pattern})$"
        left = re.sub(whole, "", left)
    banned = BANNED if name.startswith("test_") else BANNED | BANNED_BUT_IN_TESTS
    return [part for part in parts(left) if part in banned]


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each name in a file."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                yield token.start[0], token.string


def found(root: Path) -> list[str]:
    """List the private words in the names of a tree: in files, and of them."""
    wrong = []
    for floor in FLOORS:
        for path in sorted((root / floor).rglob("*.py")):
            wrong += [f"{path.relative_to(root)}: {word}" for word in private_parts_of(path.stem)]
            first: dict[str, int] = {}
            for line, name in names(path):
                first.setdefault(name, line)
            for name, line in first.items():
                wrong += [f"{path.relative_to(root)}:{line}: {name}" for _ in private_parts_of(name)[:1]]
    return wrong


def test_names_use_the_words_of_the_field() -> None:
    assert found(ROOT) == []
