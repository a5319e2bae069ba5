"""Who reads: an operator sees everything, a user the detail of their own jobs."""

from typing import Final

import msgspec
from starlette.requests import Request


class Reader(msgspec.Struct, frozen=True):
    """Who asks: `user` as the journal writes users (None: nobody in particular), and whether it is an operator.

    >>> Reader(user="u-1").sees("u-1"), Reader(user="u-1").sees("u-2"), Reader(user=None).sees(None)
    (True, False, False)
    """

    user: str | None = None
    operator: bool = False

    def sees(self, user: str | None) -> bool:
        """Tell whether the detail of a job of this user may be shown."""
        return self.operator or (user is not None and user == self.user)


EVERYBODY: Final = Reader(operator=True)  # where nothing limits access


def reader(request: Request) -> Reader:
    """Return who asks; whoever comes through an open port is an operator.

    >>> reader(Request({"type": "http"})).operator
    True
    """
    found: Reader = request.scope.get("scalewatch.reader", EVERYBODY)
    return found
