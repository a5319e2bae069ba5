"""Words for people: verdicts explained, durations, sizes and shares. The page and the demo's screen share them."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
from markupsafe import Markup, escape

from processors.contracts import names
from processors.contracts.names import measured, signed
from processors.contracts.outputs import CurvePoint, UsefulSizes

if TYPE_CHECKING:
    from jinja2 import Environment


INSIDE: Final = frozenset({"observed", "interpolated"})  # sources of points among the sizes that were run
_EXPLAINED: Final = {
    "reliable": "The runs so far determine the curve well.",
    "insufficient": "Fewer than three sizes have been seen: the curve is a first guess from what applications usually do.",
    "high_error": "The runs do not lie on one scaling curve: something other than the size decides the run time.",
    "linear": "No run has reached the size where more nodes stop helping, so that size is not known yet.",
    "runner_up": "Two quite different curves fit the runs equally well.",
    "superlinear": "Doubling the size more than halves the run time, which no scaling law explains: memory or cache.",
    "far": "The size asked for is far outside the sizes that have been run.",
    "uncertain": "The prediction may be far off.",
    "unknown": "Nothing is known of this application.",
}
_ATTENTION: Final = (
    "high_error", "superlinear", "runner_up", "linear", "far", "uncertain", "insufficient", "unknown", "reliable"
)  # fmt: skip
_STEPS: Final = ((36_000.0, 900), (600.0, 60), (100.0, 5))  # from so many seconds on, rounded to so many
CHANCE_MIN: Final = 0.01
_ONE: Final = {"nodes": "node", "cores": "core", "processes": "process", "threads": "thread", "gpus": "gpu"}


duration = names.duration  # pages and alerts write durations alike


def verdict_text(verdict: str) -> str:
    """Return a verdict as it is written for people."""
    return verdict.replace("_", " ")


def explained(verdict: str) -> str:
    """Return what a verdict means, in one sentence; empty for a verdict of a later version."""
    return _EXPLAINED.get(verdict, "")


def attention(verdict: str) -> int:
    """Return the place of a verdict in a list that begins with what needs attention most."""
    return _ATTENTION.index(verdict) if verdict in _ATTENTION else len(_ATTENTION)


def behind(seconds: float) -> str:
    """Return how far something is behind now, or ahead of it: ticks are of whole seconds, so less than one is neither."""
    return f"{duration(-seconds)} ahead" if seconds < -1 else f"{duration(max(0.0, seconds))} behind"


def size(n: float) -> str:
    """Return a size: whole numbers in full, others with three digits."""
    return str(int(n)) if n == int(n) else f"{n:.3g}"


def counted(count: int, thing: str) -> str:
    """Return a number of things."""
    return f"{count} {thing}" if count == 1 else f"{count:,} {thing}s"


def share(ratio: float | None) -> str:
    """Return a share in per cent, a dash where it is not known."""
    if ratio is None:
        return "-"
    return f"{100 * ratio:.1f} %" if abs(ratio) < 0.0995 else f"{100 * ratio:.0f} %"


def chance(probability: float | None) -> str:
    """Return a probability in whole per cent, a dash where it is not known; what is nearly certain is not measured closer."""
    if probability is None:
        return "-"
    if probability < CHANCE_MIN:
        return "below 1 %"
    return "above 99 %" if probability > 1 - CHANCE_MIN else f"{100 * probability:.0f} %"


def power(power_w: float | None) -> str:
    """Return a power, a dash where it is not known."""
    return measured("power_w", power_w)


def effect(amount: float, target: str) -> str:
    """Return what is added to a target of profiles, with its sign and unit."""
    if target == "run_time_s":
        return f"{'-' if amount < 0 else '+'}{duration(abs(amount))}"
    return signed("power_w", amount)


def energy(energy_j: float | None) -> str:
    """Return an energy, a dash where it is not known."""
    return measured("energy_j", energy_j)


def energy_advice(points: Sequence[CurvePoint], useful: UsefulSizes, unit: str) -> str:
    """Return what to know of energy, in one sentence: the size that takes least, and what the fastest costs beside it.

    `points` are those that can be relied on; empty where there is no advice.
    """
    known = {point.n: (point.run_time_s, point.energy_j) for point in points if point.energy_j}
    least, fastest = useful.least_energy, min(known, key=lambda n: (known[n][0], n), default=None)
    if least is None or fastest is None or least not in known:
        return ""
    (least_s, least_j), (fastest_s, fastest_j) = known[least], known[fastest]
    text = f"A run takes least energy at {sized(least, unit)}, {energy(least_j)}"
    if fastest == least or not least_j or not fastest_j:
        return f"{text}, and is fastest there."
    ratios = f"{_ratio(least_s / fastest_s)} times as fast for {_ratio(fastest_j / least_j)} times the energy"
    return f"{text}; {sized(fastest, unit)} {'is' if fastest == 1 else 'are'} {ratios}."


def sized(n: float, unit: str) -> str:
    """Return a size with its unit."""
    return f"{size(n)} {_ONE.get(unit, unit)}" if n == 1 else f"{size(n)} {unit}"


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 99 else f"{value:.0f}"


def span(start: str | None, stop: str | None) -> str:
    """Return two moments, the day once where it is one."""
    first, last = moment(start), moment(stop)
    return f"{first} to {last[11:] if last[:10] == first[:10] and len(last) > 11 else last}"


def around(time: str | None, start: str | None, stop: str | None) -> str:
    """Return the two moments around a third, without the day where it is the same for all three."""
    text = span(start, stop)
    day = moment(time)[:10]
    return text[11:] if text[:10] == day == (stop or "")[:10] else text


def clock(time: str | None, now: str) -> str:
    """Return a moment, on the day of `now` only its time of day."""
    text = moment(time)
    return text[11:] if text[:10] == now[:10] else text


def moment(rfc3339: str | None) -> str:
    """Return a moment without its seconds and letters, a dash where there is none."""
    return rfc3339[:16].replace("T", " ") if rfc3339 else "-"


def band(low_s: float | None, high_s: float | None) -> str:
    """Return a band of run times."""
    return "-" if low_s is None or high_s is None else f"{duration(low_s)} to {duration(high_s)}"


def printable(text: str) -> str:
    r"""Return a text whose control characters cannot reach a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def rounded(seconds: float) -> str:
    """Return a duration, rounded: whole minutes from ten minutes on, quarters of an hour from ten hours on."""
    step = next((step for least, step in _STEPS if seconds >= least), None)
    return duration(seconds if step is None or seconds >= 1e9 else round(seconds / step) * step)


def between(low_s: float, high_s: float) -> str:
    """Return a range of durations, the unit once where that reads well."""
    low, high = rounded(low_s), rounded(high_s)
    if low == high and low_s != high_s:
        low, high = duration(low_s), duration(high_s)
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{number} to {high}" if unit == other else f"{low} to {high}"


def next_limit(seconds: float) -> float:
    """Return a time limit that a person would write down, in seconds: not below, in steps that grow with it."""
    minutes = seconds / 60
    step = next((step for most, step in ((10, 1), (120, 5), (480, 15), (1440, 30)) if minutes <= most), 60)
    return max(-(-minutes // step) * step, 1.0) * 60.0


def environment(package: str) -> "Environment":
    """Return the templates of a package, and those of the pages: everything is escaped, a missing value is an error."""
    # commands need the words and no templates
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("sinks.web")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        behind=behind, chance=chance, clock=clock, counted=counted, duration=duration, effect=effect, energy=energy, moment=moment, power=power, share=share, size=size, sized=sized,
        verdict_text=verdict_text,
    )  # fmt: skip
    made.globals.update(band=band)
    return made


class Section(msgspec.Struct, frozen=True):
    """A section of the runbook: the anchor, the heading, its level (1: of a group), and the text as HTML."""

    anchor: str
    heading: str
    level: int
    html: Markup


def section(name: str) -> Section | None:
    """Return the section with a heading; None where there is none."""
    return next((each for each in sections() if each.heading == name), None)


@cache
def sections() -> tuple[Section, ...]:
    """Return all sections, in their order."""
    return tuple(parsed((files("sinks.web") / "runbook.md").read_text(encoding="utf-8")))


def parsed(text: str) -> Iterator[Section]:
    """Yield the sections of a text; its tables scroll where they are wide, its own links lead to the page of the runbook."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  read by those who open the page, and 60 modules large

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in [each for block in tokens for each in (block, *(block.children or ()))]:
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
    """Return what a link to a heading ends with."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
