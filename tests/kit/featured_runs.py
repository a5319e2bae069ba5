"""Runs of an application whose times follow from attributes of the job, and from its communication."""

from processors.facts import CurvePrediction, PublishedPoint
from processors.features.shared import CommunicationPool, SharedRun
from processors.features.times import FeatureFact, FeatureQuestion, FeatureTimes
from processors.models.features.communication import NAMES

SOLVERS = ("sweep", "cg", "amg")
FITTED_MS = (8_000, 25_000, 99_000)


def featured_run(i: int) -> FeatureFact:
    """Return the i-th run: one of three solvers, three times as slow as one another; every other tells its network."""
    n, factor = 2.0 ** (i % 5), 3.0 ** (i % 3)
    curve = PublishedPoint(n, 1000.0 / n, 400.0 / n, 2500.0 / n)
    network = {name: 1.0 + (i * (at + 1)) % 17 for at, name in enumerate(NAMES)} if i % 2 else {}
    return FeatureFact(
        f"exa/{i}@0",
        n,
        300.0 * factor / n * (1.0 + 0.01 * (i % 7)),
        i * 1000,
        i * 1000,
        {"solver": SOLVERS[i % 3], "atoms": 1000 * (1 + i % 4), **{f"extra{k}": i % (k + 2) for k in range(6)}},
        network,
        CurvePrediction(curve, curve, "inside") if i % 11 and (i < 200 or i % 20 == 0) else None,
    )


def question_of(fact: FeatureFact) -> FeatureQuestion:
    """Return what would have been asked before a run."""
    curve = PublishedPoint(fact.n, 1000.0 / fact.n, 400.0 / fact.n, 2500.0 / fact.n)
    return FeatureQuestion(fact.attributes, fact.network, fact.n, curve.band, curve.band, fact.n)


def features_learn(times: FeatureTimes, fact: FeatureFact) -> None:
    """Take a run in; models are fitted at a few of them, and wholly: a repeat finds nothing to do."""
    times.learn(fact)
    if fact.end_ms in FITTED_MS:
        while times.step():
            pass


def shared_run(i: int) -> SharedRun:
    """Return the i-th run of six applications at scales of their own, whose times are sums of the same costs."""
    network = {name: 1.0 + (i * (at + 3)) % 19 for at, name in enumerate(NAMES)}
    time_s = 3.0 ** (i % 6) * (2.0 * network["max_bytes"] + network["avg_buffer_to"] + 0.01 * (i % 7))
    return SharedRun(f"exa/app{i % 6}//nodes", f"exa/{i}@0", i * 1000, time_s, network, i * 1000)


def shared_learn(pool: CommunicationPool, run: SharedRun) -> None:
    """Take a run in; costs are fitted at a few of them, and wholly: a repeat finds nothing to do."""
    pool.learn(run)
    if run.end_ms in FITTED_MS:
        while pool.step():
            pass
