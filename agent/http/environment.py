"""Templates of HTML: one policy and one set of words for the pages of a running agent and for reports."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from agent import words


def environment(package: str) -> Environment:
    """Return the templates of a package: everything is escaped, and a missing value is an error.

    >>> environment("agent.http").from_string("{{ 0.031|share }} {{ name }}").render(name="<b>")
    '3.1 % &lt;b&gt;'
    """
    made = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(
        counted=words.counted, share=words.share, moment=words.moment, verdict_words=words.verdict_words
    )  # fmt: skip
    return made
