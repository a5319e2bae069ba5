"""Facts about past jobs, one for each number."""

from processors.similar_runs import ComingJob, EndedJob, ScorePair


def ended_job(i: int) -> EndedJob:
    """Return the i-th run: of seven names, five users and three time limits."""
    job = ComingJob(1.0 + i % 300, f"exa/a{i % 7}//nodes", f"u{i % 5}", (None, 600.0, 3600.0)[i % 3])
    return EndedJob(f"exa/{i}@0", job, 10.0 + i % 900)


def score_pair(i: int) -> ScorePair:
    """Return how a curve and similar runs did on the i-th run."""
    return ScorePair(1.0 + i % 300, 100.0, 90.0 + i % 31)
