"""What is said by standard `logging` in a worker: in the job's log, and on stderr if it is a warning or worse."""

import json
import signal

import pytest

from cli.shell import Running, run


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_background_task_that_fails_is_told_on_stderr(shop_url, log_format):
    with Running("worker", "-A", "shop:app", WINDLASS_LOG_FORMAT=log_format) as working:
        working.wait_for("worker started")
        assert run("enqueue", "careless", "--wait").status == 0
        told = working.wait_for("Task exception was never retrieved")
        if log_format == "json":
            record = json.loads(told)
            assert (record["level"], record["logger"]) == ("error", "asyncio")
            assert "RuntimeError: nobody looked" in record["exception"]
        else:
            working.wait_for("RuntimeError: nobody looked")
        assert "a library's warning" in working.wait_for("a library's warning")
        assert "a library's chatter" not in working.text


def test_what_a_job_logs_is_in_its_log(shop_url):
    with Running("worker", "-A", "shop:app") as working:
        working.wait_for("worker started")
        job_id = run("enqueue", "careless", "--wait").id
        working.tell(signal.SIGTERM)
        assert working.ended() == 0
    told = [line.split(" ", 1)[1] for line in run("jobs", "logs", job_id).out.splitlines()]
    assert "info a library's chatter logger=library" in told
    assert "warning a library's warning logger=library" in told


def test_an_application_that_set_up_logging_itself_keeps_what_it_set(shop_url):
    with Running("worker", "-A", "logging_shop:app") as working:
        working.wait_for("worker started")
        assert run("enqueue", "chat", "--wait").status == 0
        assert working.wait_for("chatter") == "MINE chatter\n"
