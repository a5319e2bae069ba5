"""Meanings of keys whose model says none. A test holds this list to exactly those."""

from typing import Final

MEANINGS: Final[dict[str, str]] = {
    "identify.rules": "tried in this order; the first that matches decides",
    "identify.rules.[].application": "the name it gives; {group} stands for a named group of its patterns",
    "identify.rules.[].input": "the problem class it gives; {group} stands for a named group of its patterns",
    "identify.rules.[].unit": "the unit that sizes its jobs, where the job is known in it",
    "identify.rules.[].confidence": "what the answer says of itself",
    "identify.fallback": "fields that may name the application where no rule matches, best first",
    "jobs.open_jobs_max": "started jobs that are remembered; over it the oldest is forgotten and counted",
    "run_time.sizes_max": "sizes of an application that are remembered; over it the least used is forgotten",
    "run_time.cores_per_node": "cores of a node, so that advice on sizes in cores can name whole nodes",
    "run_time.prediction_valid_s": "how long a prediction says it is valid",
    "alerts.slow_size.enabled": "whether this alert exists",
    "alerts.slow_size.deviation_min": "share of the curve's value by which a size has to be off",
    "alerts.outside_band.enabled": "whether this alert exists",
    "alerts.outside_band.keep_firing_s": "it resolves when nothing new came for this long",
    "alerts.unreliable.enabled": "whether this alert exists",
    "alerts.unreliable.verdicts": "verdicts that raise it",
    "alerts.unreliable.observations_min": "runs the model has to know first",
    "alerts.unreliable.for_s": "how long the verdict has to hold first",
    "alerts.failure_rate.enabled": "whether this alert exists",
    "alerts.failure_rate.recent_runs": "the newest runs, whose failures are counted",
    "alerts.failure_rate.failures_min": "failures among them that are needed at least",
    "alerts.failure_rate.credibility": "how sure it has to be that the rate is above the usual one",
    "alerts.failure_rate.hosts_max": "hosts that are remembered; over it the longest unused is forgotten",
    "alerts.failure_rate.keep_firing_s": "it resolves when nothing new came for this long",
    "alerts.open_max": "open alerts; over it new ones are counted and left out",
}
