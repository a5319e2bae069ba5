"""Under which keys things of several curves are kept."""

from urllib.parse import quote

from agent.contracts.names import SAFE, ApplicationKey


def laws_key(key: ApplicationKey) -> str:
    """Return the key under which all curves of an application teach each other.

    >>> laws_key(ApplicationKey("lmp/gpu", "exa", "", "nodes"))
    'lmp%2Fgpu'
    """
    return quote(key.application, safe=SAFE)


def inputs_key(key: ApplicationKey) -> str:
    """Return the key under which the inputs of an application in one unit are kept.

    >>> inputs_key(ApplicationKey("lmp/gpu", "exa", "", "nodes"))
    'lmp%2Fgpu/nodes'
    """
    return f"{laws_key(key)}/{quote(key.unit, safe=SAFE)}"
