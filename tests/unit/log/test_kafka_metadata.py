"""Where the metadata of a committed position ends, whatever a client reads behind it."""

import pytest

from agent.log.kafka.consumer import marked, unmarked


@pytest.mark.parametrize("behind", ["", "\0", "7", "7\0", "!A", "\n9"])
def test_what_stands_behind_the_mark_is_not_read(behind: str) -> None:
    assert unmarked(marked("windows:1:60000") + behind) == "windows:1:60000"


def test_metadata_without_a_mark_is_not_read_because_its_end_is_unknown() -> None:
    assert unmarked("windows:1:600007") == ""
