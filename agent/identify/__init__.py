"""From a job to an application: ordered rules, then the evidence itself."""

from agent.identify.identifier import Identification, Identifier

__all__ = ["Identification", "Identifier"]
