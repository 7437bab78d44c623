"""The worker as a process: how it starts, and the ways in which it ends."""

import json
import os
import re
import signal

from cli.shell import Running, run, worker


def test_sigterm_lets_what_runs_finish(shop_url):
    with worker() as working, Running("enqueue", "nap", "--wait") as waiting:
        waiting.wait_for(" running ")
        working.tell(signal.SIGTERM)
        assert waiting.ended() == 0
        assert 'result: "slept"' in waiting.text
        assert working.ended() == 0


def test_after_the_grace_what_still_runs_is_given_back(shop_url):
    with worker("--grace", "0.2") as working, Running("enqueue", "nap", "--payload", '{"seconds": 60}', "--wait") as waiting:
        waiting.wait_for(" running ")
        working.tell(signal.SIGTERM)
        assert working.ended() == 0
        waiting.wait_for(" queued")
    (job,) = json.loads(run("jobs", "ls", "--json").out)["items"]
    assert (job["status"], job["attempt_count"]) == ("queued", 0)


def test_a_second_ctrl_c_hurries_even_if_a_thread_takes_no_notice(shop_url):
    with worker() as working, Running("enqueue", "stuck", "--wait") as waiting:
        waiting.wait_for(" running ")
        working.tell(signal.SIGINT)
        working.wait_for("stopping")
        working.tell(signal.SIGINT)
        assert working.ended() == 0
        waiting.wait_for(" queued")


def test_a_third_ctrl_c_ends_even_a_worker_whose_loop_is_blocked(shop_url):
    with worker("--name", "b") as working, Running("enqueue", "blocked", "--wait") as waiting:
        waiting.wait_for(" running ")
        assert working.told_again_and_again(signal.SIGINT) == 1


def test_a_worker_may_not_have_the_name_of_one_that_lives(shop_url):
    with worker("--name", "anna"):
        second = run("worker", "-A", "shop:app", "--name", "anna")
    assert second.status == 1
    assert "A worker named 'anna' is alive" in second.err
    assert "Traceback" not in second.err


def test_a_process_that_is_killed_is_replaced_and_all_end_with_the_parent(shop_url):
    with Running("worker", "-A", "shop:app", "--processes", "2", "--name", "w") as parent:
        parent.wait_for("worker started", times=2)
        assert _alive() == {"w-1", "w-2"}
        os.kill(_pid_of("w-2", parent), signal.SIGKILL)
        died = parent.wait_for("a worker process died")
        assert "w-2" in died
        assert "signal 9" in died
        parent.wait_for("worker started", times=3)
        assert run("enqueue", "greet", "--wait").status == 0
        parent.tell(signal.SIGTERM)
        assert parent.ended() == 0
        assert parent.text.count("worker stopped") == 2
    assert _alive() == set()


def test_processes_stop_by_themselves_when_their_parent_is_killed(shop_url):
    with Running("worker", "-A", "shop:app", "--processes", "2", "--name", "w") as parent:
        parent.wait_for("worker started", times=2)
        parent.tell(signal.SIGKILL)
        parent.wait_for("the supervisor is gone", times=2)
        parent.wait_for("worker stopped", times=2)
    assert _alive() == set()


def test_a_queue_to_which_no_job_goes_is_warned_of(shop_url):
    with Running("worker", "-A", "shop:app", "--queues", "default, mial") as working:
        assert "mial" in working.wait_for("no job of this application goes to these queues")
        working.wait_for("worker started")
        assert "workers look into mial, where no definition sends jobs" in run("doctor").out


def _alive() -> set[str]:
    return {item["name"] for item in json.loads(run("workers", "ls", "--json").out)["items"]}


def _pid_of(name: str, parent: Running) -> int:
    line = next(line for line in parent.lines if "worker process started" in line and f"name={name}" in line)
    found = re.search(r"pid=(\d+)", line)
    assert found
    return int(found[1])
