"""Where the metadata of a committed position ends, whatever a client reads behind it."""

import pytest

from agent.log.kafka.consumer import marked, unmarked


@pytest.mark.parametrize("behind", ["", "\0", "7", "7\0", "!A", "\n9"])
@pytest.mark.parametrize("exact", [True, False])
def test_what_stands_behind_the_mark_is_not_read(behind: str, *, exact: bool) -> None:
    assert unmarked(marked("windows:1:60000") + behind, exact=exact) == "windows:1:60000"


def test_metadata_of_an_older_agent_is_kept_where_its_end_is_known() -> None:
    assert unmarked("windows:1:60000", exact=True) == "windows:1:60000"
    assert unmarked("windows:1:600007", exact=False) == ""
