"""Names: applications, jobs and runs, and the keys that they become."""

from urllib.parse import quote, unquote

import msgspec

SAFE = " !\"#$&'()*+,-.:;<=>?@[]^_`{|}~"  # all printable ASCII but the separator and the escape


class ApplicationKey(msgspec.Struct, frozen=True, order=True):
    """What has one scaling curve: an application on a system, with one input, sized in one unit.

    >>> key = ApplicationKey(application="lammps", system="archer2", input="rhodo/32k", unit="nodes")
    >>> key.id
    'archer2/lammps/rhodo%2F32k/nodes'
    >>> ApplicationKey.parse(key.id) == key
    True
    """

    application: str
    system: str
    input: str
    unit: str

    @property
    def id(self) -> str:
        """The key of the prediction topic and of the state: four parts joined by a slash, escaped like a URL."""
        return "/".join([escaped(self.system), escaped(self.application), escaped(self.input), escaped(self.unit)])

    @classmethod
    def parse(cls, text: str) -> "ApplicationKey":
        """Return the key that `id` came from; ValueError where the text has not four parts."""
        system, application, input_, unit = (unquote(part) for part in text.split("/"))
        return cls(application=application, system=system, input=input_, unit=unit)


def escaped(text: str) -> str:
    """Return a part of a key as it stands between slashes. Nearly all parts need no escape, and to see that is quick.

    >>> escaped("rhodo/32k 100%"), escaped("run 7")
    ('rhodo%2F32k 100%25', 'run 7')
    """
    plain = text.isascii() and text.isprintable() and "/" not in text and "%" not in text and "\\" not in text
    return text if plain else quote(text, safe=SAFE)


def job_key(system: str, job_id: str) -> str:
    """Return the key of a job: system and job id.

    >>> job_key("archer2", "812")
    'archer2/812'
    """
    return f"{escaped(system)}/{escaped(job_id)}"


def run_id(system: str, job_id: str, start_ms: int) -> str:
    """Return the identity of one run: job id and start. Every producer knows both, so a run has one identity.

    A requeued job keeps its job id and gets a new start, so it is a new run.

    >>> run_id("archer2", "812", 1795168800000)
    'archer2/812@1795168800000'
    """
    return f"{escaped(system)}/{escaped(job_id)}@{start_ms}"
