"""How values become text."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass.cli import _shown as shown


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 ms"), (0.0123, "12 ms"), (0.99999, "1.0 s"), (9.94, "9.9 s"), (59, "59 s"), (119, "119 s"), (120, "2 min"),
     (7200, "2 h"), (3 * 86400, "3 d"), (-5, "0 ms"), (None, "")],
)  # fmt: skip
def test_a_stretch_of_time(seconds, told):
    assert shown.lasting(seconds) == told


def test_a_moment_is_told_from_now():
    now = datetime.now(UTC)
    assert shown.ago(now - timedelta(hours=3)) == "3 h ago"
    assert shown.ago(now + timedelta(minutes=10, seconds=5)) == "in 10 min"
    assert shown.ago(None) == ""


def test_orders_to_a_terminal_are_shown_and_not_given():
    assert shown.clean("a\x1b[2J\x07\rb\tc\u202e\x9b") == "a\\x1b[2J\\x07\\x0db\tc\\x202e\\x9b"


def test_a_table_without_a_terminal_is_aligned_text(capsys):
    shown.table(["id", "error"], [["1", "first\nsecond"], ["1000", ""]])
    assert capsys.readouterr().out == "id    error\n1     first\n1000\n"
