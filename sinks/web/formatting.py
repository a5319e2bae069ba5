"""Text for people: verdicts, durations, sizes, shares and runbook sections, for pages, reports and terminal."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
from markupsafe import Markup, escape

from processors.contracts import names
from processors.contracts.names import measured, signed
from processors.contracts.outputs import CurvePoint, UsefulSizes

if TYPE_CHECKING:
    from jinja2 import Environment


# verdicts that need attention most come first
_EXPLAINED: Final = {
    "high_error": "The runs do not lie on one scaling curve: something other than the size determines the run time.",
    "uncertain": "A run may differ from the prediction by more than 30 %, or the size is far from those that were run.",
    "insufficient": "Fewer than three sizes were run, so the curve is a first guess from other applications.",
    "unknown": "No run of this application is known.",
    "reliable": "Nine of ten runs are expected within 30 % of the prediction, or nearer.",
}
View = dict[str, Any]
"""The values that a template shows, by name."""

# (minimum duration, step for rounding), both in s
_STEPS: Final = ((36_000.0, 900), (600.0, 60), (100.0, 5))
CHANCE_MIN: Final = 0.01
COUNTERS_SHOWN: Final = 8  # maximum counters shown for one target
_IN_SHORT: Final = re.compile(r"^## (.+)\n\n\*\*In short\.\*\* ((?:.+\n)+)", re.MULTILINE)
_ONE: Final = {"nodes": "node", "cores": "core", "processes": "process", "threads": "thread", "gpus": "gpu"}


duration = names.duration  # as alerts write it


def verdict_text(verdict: str) -> str:
    return verdict.replace("_", " ")


def explained(verdict: str) -> str:
    """Return the meaning of a verdict in a sentence; empty for a verdict of a later version."""
    return _EXPLAINED.get(verdict, "")


def attention(verdict: str) -> int:
    """Return the rank of a verdict; rank 0 needs attention most."""
    ranks = list(_EXPLAINED)
    return ranks.index(verdict) if verdict in ranks else len(ranks)


def behind(seconds: float) -> str:
    """Return a delay as text with "behind" or "ahead"; up to 1 s ahead counts as no delay, because ticks are whole seconds."""
    return f"{duration(-seconds)} ahead" if seconds < -1 else f"{duration(max(0.0, seconds))} behind"


def size(n: float) -> str:
    """Return a size as text: whole numbers in full, other numbers with three significant digits."""
    return str(int(n)) if n == int(n) else f"{n:.3g}"


def counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count:,} {thing}s"


def share(ratio: float | None) -> str:
    """Return a share in per cent, or a dash if the share is unknown."""
    if ratio is None:
        return "-"
    return f"{100 * ratio:.1f} %" if abs(ratio) < 0.0995 else f"{100 * ratio:.0f} %"


def chance(probability: float | None) -> str:
    """Return a probability in whole per cent, "below 1 %", "above 99 %", or a dash if it is unknown."""
    if probability is None:
        return "-"
    if probability < CHANCE_MIN:
        return "below 1 %"
    return "above 99 %" if probability > 1 - CHANCE_MIN else f"{100 * probability:.0f} %"


def power(power_w: float | None) -> str:
    return measured("power_w", power_w)


def effect(amount: float, target: str) -> str:
    if target == "run_time_s":
        return f"{'-' if amount < 0 else '+'}{duration(abs(amount))}"
    return signed("power_w", amount)


def energy(energy_j: float | None) -> str:
    return measured("energy_j", energy_j)


def energy_advice(points: Sequence[CurvePoint], useful: UsefulSizes, unit: str) -> str:
    """Return a sentence that compares run time and energy at the size with the least energy and at the fastest size; empty if unknown."""
    costs = {point.n: (point.run_time_s, point.energy_j) for point in points if point.energy_j}
    least, fastest = useful.least_energy, min(costs, key=lambda n: (costs[n][0], n), default=None)
    if least is None or fastest is None or least not in costs:
        return ""
    (least_s, least_j), (fastest_s, fastest_j) = costs[least], costs[fastest]
    text = f"A run uses the least energy, {energy(least_j)}, at {sized(least, unit)}"
    if fastest == least or not least_j or not fastest_j:
        return f"{text}, which is also the fastest size."
    ratios = f"{_ratio(least_s / fastest_s)} times as fast for {_ratio(fastest_j / least_j)} times the energy"
    return f"{text}; {sized(fastest, unit)} {'is' if fastest == 1 else 'are'} {ratios}."


def sized(n: float, unit: str) -> str:
    return f"{size(n)} {_ONE.get(unit, unit)}" if n == 1 else f"{size(n)} {unit}"


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 99 else f"{value:.0f}"


def span(start: str | None, stop: str | None) -> str:
    """Return a time span as text; the day appears once if both times have the same day."""
    first, last = moment(start), moment(stop)
    return f"{first} to {last[11:] if last[:10] == first[:10] and len(last) > 11 else last}"


def around(time: str | None, start: str | None, stop: str | None) -> str:
    """Return the time span from `start` to `stop`, which contains `time`. The day is omitted if all three have the same day."""
    text = span(start, stop)
    day = moment(time)[:10]
    return text[11:] if text[:10] == day == (stop or "")[:10] else text


def clock(time: str | None, now: str) -> str:
    """Return a time as text, without the date if it is the date of `now`."""
    text = moment(time)
    return text[11:] if text[:10] == now[:10] else text


def moment(rfc3339: str | None) -> str:
    return rfc3339[:16].replace("T", " ") if rfc3339 else "-"


def when(time_ms: int) -> str:
    return moment(names.rfc3339(time_ms))


def linked(text: str, href: str) -> Markup:
    """Return a text as a link; plain text if there is no address. Text and address are escaped."""
    return Markup('<a href="{}">{}</a>').format(href, text) if href else Markup("{}").format(text)


def band(low_s: float | None, high_s: float | None) -> str:
    return "-" if low_s is None or high_s is None else f"{duration(low_s)} to {duration(high_s)}"


def printable(text: str) -> str:
    """Replace control characters, which must not reach a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def rounded(seconds: float) -> str:
    """Return a duration as text, rounded to minutes from ten minutes on, and to quarters of an hour from ten hours on."""
    step = next((step for least, step in _STEPS if seconds >= least), None)
    return duration(seconds if step is None or seconds >= 1e9 else round(seconds / step) * step)


def between(low_s: float, high_s: float) -> str:
    """Return a range of durations as text; the unit appears once if both durations have the same unit."""
    low, high = rounded(low_s), rounded(high_s)
    if low == high and low_s != high_s:
        low, high = duration(low_s), duration(high_s)
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{number} to {high}" if unit == other else f"{low} to {high}"


def environment(package: str) -> "Environment":
    """Return the environment of the templates in `package` and in `sinks.web`. All values are escaped; a missing value raises an error."""
    # commands need the texts but no templates
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("sinks.web")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    texts = (
        behind, chance, clock, counted, duration, effect, energy, explained, moment, power, rounded, share, size, sized, target_title,
        verdict_text, when,
    )  # fmt: skip
    made.filters.update({function.__name__: function for function in texts})
    made.globals.update(counters_shown=COUNTERS_SHOWN, around=around, band=band, between=between, linked=linked)
    return made


_TARGETS: Final = {
    "run_time_s": "run time",
    "system_power_w": "system power per host",
    "cpu_power_w": "processor power per host",
    "memory_power_w": "memory power per host",
    "gpu_power_w": "GPU power per host",
}


def target_title(target: str) -> str:
    return _TARGETS.get(target, target)


class Section(msgspec.Struct, frozen=True):
    """A section of the runbook: anchor, heading, level (1 for a group of sections), and text as HTML."""

    anchor: str
    heading: str
    level: int
    html: Markup


def section(name: str) -> Section | None:
    return next((section for section in sections() if section.heading == name), None)


@cache
def sections() -> tuple[Section, ...]:
    return tuple(parsed(_runbook()))


@cache
def in_short() -> dict[str, str]:
    """Return the summary of the recommended action in each runbook section that has one, by heading."""
    return {heading: " ".join(text.split()) for heading, text in _IN_SHORT.findall(_runbook())}


def _runbook() -> str:
    return (files("sinks.web") / "runbook.md").read_text(encoding="utf-8")


def parsed(text: str) -> Iterator[Section]:
    """Yield the sections of the runbook from its Markdown text. Wide tables scroll; links within the text lead to the runbook page."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  read by those who open the page, and 60 modules large

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in [token for block in tokens for token in (block, *(block.children or ()))]:
        target = str(token.attrs.get("href", ""))
        if target.startswith("#"):
            token.attrSet("href", f"/runbook{target}")
        if token.type == "th_open":
            token.attrSet("scope", "col")
    starts = [place for place, token in enumerate(tokens) if token.type == "heading_open"]
    for start, stop in pairwise([*starts, len(tokens)]):
        heading = tokens[start + 1].content
        html = markdown.renderer.render(tokens[start + 3 : stop], markdown.options, {})
        region = f'<div class="wide" tabindex="0" role="region" aria-label="table: {escape(heading)}">'
        html = html.replace("<table>", f"{region}<table>")
        html = html.replace("</table>", "</table></div>")
        yield Section(anchor(heading), heading, int(tokens[start].tag[1]), Markup(html))  # noqa: S704 -- no HTML passes


def anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
