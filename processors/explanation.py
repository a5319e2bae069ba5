"""Where a prediction came from: its laws with weights, the classic laws beside it, and how right each has been."""

from typing import Final, Literal

from agent.contracts.outputs import Member, Model
from processors.members import PUBLISHED, Fits, Members
from processors.models.battery import ABILITIES, BESIDE, LARGER_ONLY, explained
from processors.models.battery_fit import combined, rounded
from processors.models.combination.evidence import LAWS
from processors.other_inputs import NAME
from processors.outlook import Outlook

DOWNEY: Final = "downey"
NO_LAWS: Final[tuple[tuple[float, ...], ...]] = ((),) * (len(LAWS) + len(BESIDE))


def model_of(outlook: Outlook, members: Members | None, fits: Fits | None = None) -> Model:
    """Return where the prediction came from; laws are told as in `fits`, by default as they were published last.

    >>> from processors.member_fits import fits
    >>> from processors.models.adept import study
    >>> outlook = Outlook(study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]), None)
    >>> told = model_of(outlook, Members.build(), fits(outlook, runs=4)).members
    >>> [(member.name, member.role, member.weight) for member in told][:2]
    [('downey', 'part', 1.0), ('kazmina', 'beside', 0.0)]
    """
    history = members or Members.build()
    known = fits or history.fits
    own = dict(zip((*LAWS, *BESIDE), known.parameters if known else NO_LAWS, strict=True))
    if fits is None and outlook.combination is not None:  # runs have come since, and the weights are those of now
        own |= dict(zip(LAWS, combined(outlook.combination.evidence), strict=True))
    weights = outlook.weights
    parts = [name for name in weights if name not in (DOWNEY, NAME)]
    others = [name for name in BESIDE if name != DOWNEY]
    errors, downey = history.errors(), outlook.study.parameters()
    told = tuple(
        Member(
            name=name,
            weight=rounded(weights.get(name, 0.0))[0],
            parameters=_rounded(downey) if name == DOWNEY else explained(name, own[name]),
            role="part" if name in weights else "beside",
            sizes_min=ABILITIES[name].sizes_min,
            answers=_answers(name, own[name]),
            errors=errors[name],
        )
        for name in (*parts, DOWNEY, *others)
    )
    leaned = (Member(NAME, rounded(weights[NAME])[0], {}),) if NAME in weights else ()
    return Model(outlook.model_name, told + leaned, errors[PUBLISHED])


def _rounded(parameters: dict[str, float]) -> dict[str, float]:
    return dict(zip(parameters, rounded(*parameters.values()), strict=True))


def _answers(name: str, own: tuple[float, ...]) -> Literal["all sizes", "larger sizes", "nothing"]:
    if not own:
        return "nothing"
    return "larger sizes" if name in LARGER_ONLY else "all sizes"
