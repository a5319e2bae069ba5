"""The agent itself, for those who keep it running, and the runbook."""

from starlette.requests import Request
from starlette.responses import Response

from agent.http.access import reader
from agent.http.agent_view import Counts, agent_view, standing
from agent.http.pages.rendering import Rendering
from agent.http.present import present_ms
from agent.http.runbook import sections


class AgentPages:
    """How the roles are, what came in, and what went wrong; `counts` reads the counters of this process.

    >>> AgentPages(Rendering(None)).show.__name__
    'show'
    """

    def __init__(self, rendering: Rendering, counts: Counts = lambda _name: {}) -> None:
        self._rendering, self._service, self._counts = rendering, rendering.service, counts

    def show(self, request: Request) -> Response:
        """Show the agent; what messages said is for operators alone."""
        operator = reader(request).operator
        view = agent_view(
            self._service.health(),
            self._service.sources(),
            self._service.letters() if operator else (),
            self._counts,
            present_ms(self._service),
        )
        return self._rendering.page(request, "agent.html", view=view, standing=standing(view), operator=operator)

    def runbook(self, request: Request) -> Response:
        """Show the runbook as it is packed with the agent."""
        return self._rendering.page(request, "runbook.html", sections=sections())
