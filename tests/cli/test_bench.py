"""The bench finds its server as other commands do. What it measures is tested in tests/bench."""

from cli.shell import run


def test_the_embedded_server_goes_on_running_and_that_is_said(home):
    told = run("bench", "--only", "enqueue_single", "--jobs", "1000", "--rounds", "1")
    assert told.status == 0
    assert "enqueue_single" in told.out
    assert "goes on running: `windlass db stop` stops it" in told.err
    assert run("db", "stop").out == f"Stopped PostgreSQL in {home}.\n"
