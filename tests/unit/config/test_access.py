"""The section `http.access`: what is refused, what is worth a thought, and that tokens stay secret."""

from pathlib import Path

import pytest

from agent.app.compose import access
from agent.config.changes import changes
from agent.config.checks import notes
from agent.config.load import load, loads
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, path_text
from processors.contracts.errors import ConfigError
from sinks.web.access import Access, Reader
from tests.kit.cases import each

IN_FILE = "a-token-of-24-characters"
ENVIRONMENT = {
    "TOKEN": IN_FILE,
    "OTHER": "another-token-of-characters",
    "SHORT": "hunter2",
    "WIDE": "token with a space 0123",
}
ANNS = "tokens: [{name: ann, token: '${env:TOKEN}', user: ann}]"


def loaded(access: str, rest: str = "") -> Config:
    return loads(f"http: {{access: {{{access}}}}}\n{rest}", environment=ENVIRONMENT)


def refused(access: str) -> list[str]:
    with pytest.raises(InvalidConfigError) as error:
        loaded(access)
    return [f"{path_text(problem.path)}: {problem.message}" for problem in error.value.problems]


def noted(config: Config) -> dict[str, str]:
    return {path_text(path): message for path, message in notes(config)}


def known(config: Config) -> Access:
    found = access(config)
    assert found is not None
    return found


def shown(token: str) -> dict[str, object]:
    return {"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}


def test_without_it_everybody_reads_everything() -> None:
    assert access(Config()) is None
    assert access(loaded("metrics: open")) is None


def test_tokens_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "operator.token").write_text(f"{IN_FILE}\n")
    file = tmp_path / "agent.yaml"
    file.write_text(
        "http:\n  access:\n    tokens:\n"
        "      - {name: operator, token: {file: operator.token}, operator: true}\n"
        "      - {name: ann, token: '${env:OTHER}', user: ann}\n"
        "privacy: {users: plain}\n"
    )
    config = load(file, environment=ENVIRONMENT)
    assert known(config).reader_of(shown(IN_FILE)) == Reader(operator=True)
    assert known(config).reader_of(shown(ENVIRONMENT["OTHER"])) == Reader(user="ann")
    assert known(config).reader_of(shown("somebody-elses-token")) is None
    for text in (repr(config), str(config), config.model_dump_json(), repr(known(config))):
        assert IN_FILE not in text


@pytest.mark.parametrize("value", ["hunter2-hunter2-hunter2", "12345", "[hunter2]", "x${env:TOKEN}hunter2"])
def test_a_token_written_into_the_file_is_refused_and_never_repeated(value: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(f"tokens: [{{name: ann, token: {value}}}]")
    assert "hunter2" not in str(error.value)
    assert "12345" not in str(error.value)


@each(
    ("given", "reported"),
    [
        ("tokens: [{name: a, token: '${env:SHORT}'}]", "http.access.tokens[0].token: has fewer than 16 characters and could be guessed."),
        ("tokens: [{name: a, token: '${env:WIDE}'}]", "http.access.tokens[0].token: must be printable ASCII without spaces, because a header cannot carry other characters."),
        ("user_header: X-Forwarded-User, trusted_proxies: []", "http.access.trusted_proxies: is empty, so user_header would be ignored from every address."),
        ("user_header: X-Forwarded-User, trusted_proxies: [proxy.example]", "http.access.trusted_proxies[0]: 'proxy.example' is not an address or network, such as 10.1.2.3 or 10.1.0.0/16."),
        ("operators: [ann]", "http.access.operators: has no effect without tokens or user_header, because everybody can read everything."),
        ("user_header: Authorization", "http.access.user_header: cannot be Authorization, because that header holds no user name."),
        ("tokens: [{token: '${env:TOKEN}'}]", "http.access.tokens[0].name: is missing."),
        ("metrics: closed", "http.access.metrics: must be token or open, not 'closed'."),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(given: str, reported: str) -> None:
    assert refused(given) == [reported]


def test_two_entries_share_neither_name_nor_token() -> None:
    entry = "{name: a, token: '${env:TOKEN}'}"
    assert refused(f"tokens: [{entry}, {entry}]") == [
        f"http.access.tokens[{index}].{key}: {subject} by more than one {kind}."
        for index in (0, 1)
        for key, subject, kind in (("name", "'a' is used", "token"), ("token", "is used", "entry"))
    ]


def test_a_file_can_be_checked_where_its_tokens_are_not() -> None:
    text = f"http: {{access: {{{ANNS}}}}}"
    assert loads(text, reveal_secrets=False).http.access.limits


def test_names_become_those_of_the_journal() -> None:
    hashed = known(loaded(ANNS, "privacy: {users: hash}")).reader_of(shown(IN_FILE))
    assert hashed is not None
    assert (hashed.user or "").startswith("u-")
    assert known(loaded(ANNS, "privacy: {users: plain}")).reader_of(shown(IN_FILE)) == Reader(user="ann")
    assert known(loaded(ANNS, "privacy: {users: drop}")).reader_of(shown(IN_FILE)) == Reader(user=None)


def test_operators_are_named_as_the_proxy_names_them_and_tokens_of_theirs_are_operators() -> None:
    found = known(loaded(f"{ANNS}, operators: [ann], user_header: Remote-User, trusted_proxies: [10.0.0.1]"))
    reader = found.reader_of({"type": "http", "headers": [(b"remote-user", b"ann")], "client": ("10.0.0.1", 1)})
    assert reader is not None
    assert reader.operator
    assert reader == found.reader_of(shown(IN_FILE))


def test_what_is_worth_a_thought_is_reported() -> None:
    assert noted(loads("http: {host: 0.0.0.0}"))["http.host"].endswith(
        "can read everything; set http.access to ask for a log-in."
    )
    header = noted(loads("http: {host: 0.0.0.0, access: {user_header: X-User, trusted_proxies: [0.0.0.0/0, '::1']}}"))
    assert header["http.host"].endswith("travel unencrypted; put a proxy with TLS in front.")
    assert (
        header["http.access.trusted_proxies[0]"]
        == "covers all addresses: everyone who reaches the port can claim any user name."
    )
    assert (
        header["http.access.trusted_proxies[1]"]
        == "is this machine: everyone who can log in to it can claim any user name."
    )
    assert header["http.access"].startswith("names no operator")
    dropped = noted(
        loaded(f"{ANNS}, operators: [ann], metrics: open", "privacy: {users: drop}\nmetrics: {hosts_max: 10}")
    )
    assert dropped["privacy.users"] == "is drop: no job has an owner, so only operators see jobs in detail."
    assert dropped["http.access.metrics"] == "is open: everyone who reaches /metrics sees the measurements of hosts."
    assert "http.access" not in dropped


def test_a_new_token_is_a_change_that_is_reported_without_it() -> None:
    old, new = (loaded(f"tokens: [{{name: ann, token: '${{env:{name}}}'}}]") for name in ("TOKEN", "OTHER"))
    (change,) = changes(old, new)
    assert str(change).startswith("http.access.tokens[0].token: (secret) -> (secret) [reload: ")
