"""Everything in one go, and away with it."""

import signal

from cli.shell import Running, run
from windlass.db import embedded


def test_up_makes_a_database_runs_the_demo_and_leaves_nothing_running(home):
    with Running("up") as up:
        up.wait_for("windlass doctor")
        assert "postgresql://postgres@/windlass" in up.wait_for("  database  ")
        assert "greet" in up.wait_for("  worker    runs ")
        up.wait_for("worker started")
        for job in (
            ["greet"],
            ["disk-free"],
            ["disk-free", "--payload", '{"folder": "/"}'],
            ["primes", "--payload", '{"below": 100}'],
        ):
            assert run("enqueue", *job, "--wait").status == 0
        assert run("doctor").status == 0
        up.tell(signal.SIGINT)
        assert up.ended() == 0
        assert "Traceback" not in up.text
    assert embedded.find_embedded(home) is None


def test_up_runs_an_application_on_the_database_that_is_set_and_leaves_that_running(windlass_url):
    with Running("up", "-A", "shop:app") as up:
        up.wait_for("windlass doctor")
        assert "nap" in up.wait_for("  worker    runs ")
        up.tell(signal.SIGTERM)
        assert up.ended() == 0
        assert "goes on running" in up.text
    assert run("jobs", "ls").status == 0
