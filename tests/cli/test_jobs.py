"""Jobs from a shell: asked for, followed, listed, shown, canceled, retried, read."""

import json
from datetime import UTC, datetime, timedelta

from cli.shell import Running, run, worker

API_KEYS = {
    "id", "tenant_id", "definition_key", "status", "priority", "source", "source_ref", "payload", "dedupe_key",
    "correlation_id", "scheduled_for", "queued_at", "started_at", "finished_at", "attempt_count", "max_attempts",
    "worker_id", "host_id", "server_id", "waiting_on", "result", "error", "cost_cents", "created_by",
}  # fmt: skip


def test_a_job_is_followed_to_its_end(shop_url):
    with worker():
        told = run("enqueue", "greet", "--payload", '{"name": "Ada"}', "--wait")
    assert told.status == 0
    assert "info greeting name=Ada" in told.out
    assert " succeeded after " in told.out
    assert told.out.endswith('result: "Hello, Ada!"\n')


def test_a_job_that_fails_is_exit_status_1(shop_url):
    with worker():
        told = run("enqueue", "fail", "--wait")
    assert told.status == 1
    assert told.out.endswith("no luck\n")
    assert " failed" in told.out


def test_who_waits_for_a_job_that_no_worker_handles_is_told_so(shop_url):
    with Running("enqueue", "greet", "--wait") as waiting:
        waiting.wait_for("No worker handles 'greet' now")
        job_id = waiting.lines[0].strip()
        waiting.wait_for(" queued")
        assert run("jobs", "cancel", job_id).status == 0
        assert waiting.ended() == 1
        assert " canceled" in waiting.text


def test_a_job_waits_for_its_time(shop_url):
    due = datetime.now(UTC) + timedelta(hours=2)
    for option, value in (("--in", "2h"), ("--at", due.isoformat())):
        told = _shown(run("enqueue", "greet", option, value).id)
        assert told["status"] == "scheduled"
        assert abs(datetime.fromisoformat(told["scheduled_for"]) - due) < timedelta(minutes=1)


def test_the_payload_may_come_from_stdin_and_the_options_reach_the_job(shop_url):
    asked = run("enqueue", "greet", "--payload", "-", "--priority", "7", "--dedupe-key", "k", stdin='{"name": "Bob"}')
    again = run("enqueue", "greet", "--dedupe-key", "k")
    assert again.id == asked.id
    assert "No new job" in again.err
    told = _shown(asked.id)
    assert (told["payload"], told["priority"], told["dedupe_key"]) == ({"name": "Bob"}, 7, "k")


async def test_a_tenant_is_named_by_its_slug_or_its_id(shop_url, make_tenant):
    acme = str(await make_tenant("acme"))
    ids = [run("enqueue", "greet", "--tenant", named).id for named in ("acme", acme)]
    assert [_shown(job_id)["tenant"] for job_id in ids] == ["acme", "acme"]
    for named in ("acme", acme):
        items = json.loads(run("jobs", "ls", "--tenant", named, "--json").out)["items"]
        assert {item["id"] for item in items} == set(ids)


def test_a_listing_has_a_line_for_each_job_newest_first(ask):
    ids = [ask("greet"), ask("fail")]
    lines = run("jobs", "ls").out.splitlines()
    assert lines[0].split() == ["id", "status", "definition", "queued", "took", "attempts", "error"]
    assert [line.split()[:3] for line in lines[1:]] == [[ids[1], "queued", "fail"], [ids[0], "queued", "greet"]]
    assert "\x1b" not in "".join(lines)
    assert run("jobs", "ls", "--definition", "fail").out.count("queued ") == 1 + 1
    nothing = run("jobs", "ls", "--status", "running", "--status", "failed")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "There are no such jobs.\n")


def test_json_is_one_document_with_the_keys_of_the_api(ask):
    ids = [ask("greet") for _ in range(3)]
    first = json.loads(run("jobs", "ls", "--json", "--limit", "2").out)
    assert [item["id"] for item in first["items"]] == [ids[2], ids[1]]
    assert first["next_cursor"] == ids[1]
    assert first["items"][0].keys() >= API_KEYS - {"payload", "result"}
    second = json.loads(run("jobs", "ls", "--json", "--limit", "2", "--cursor", first["next_cursor"]).out)
    assert ([item["id"] for item in second["items"]], second["next_cursor"]) == ([ids[0]], None)
    assert _shown(ids[0]).keys() >= API_KEYS | {"attempts"}


def test_cancel_and_retry_say_of_each_job_what_became_of_it(ask):
    one, two = ask("greet"), ask("greet")
    assert run("jobs", "cancel", one, "--reason", "not needed").out == f"{one} canceled\n"
    assert _shown(one)["error"] == "not needed"
    both = run("jobs", "cancel", one, two)
    assert (both.status, both.out) == (1, f"{two} canceled\n")
    assert f"Job {one} is canceled" in both.err
    assert run("jobs", "retry", one, two).out == f"{one} queued\n{two} queued\n"
    refused = run("jobs", "retry", one)
    assert (refused.status, refused.err) == (1, f"Error: Job {one} is queued: only a job that has ended can be retried.\n")


def test_cancel_and_retry_answer_with_a_document_if_asked(ask):
    one, two = ask("greet"), ask("greet")
    assert json.loads(run("jobs", "cancel", one, "--json").out) == {"items": [{"id": one, "became": "canceled", "error": None}]}
    both = run("jobs", "cancel", one, two, "--json")
    refused, done = json.loads(both.out)["items"]
    assert (both.status, refused["became"], done["became"]) == (1, None, "canceled")
    assert refused["error"].startswith(f"Job {one} is canceled")
    retried = json.loads(run("jobs", "retry", one, two, "--json").out)["items"]
    assert [item["became"] for item in retried] == ["queued", "queued"]


def test_logs_are_followed_until_a_running_job_is_canceled(ask):
    with worker():
        job_id = ask("nap", seconds=60)
        with Running("jobs", "logs", "-f", job_id) as following:
            following.wait_for("falling asleep")
            assert run("jobs", "cancel", job_id).out == f"{job_id} asked to stop\n"
            following.wait_for(" canceled")
            assert following.ended() == 0
    told = run("jobs", "show", job_id).out
    assert "status      canceled" in told
    assert "attempts    1/3" in told


def test_what_a_job_said_is_no_order_to_the_terminal(shop_url):
    with worker():
        job_id = run("enqueue", "nap", "--payload", '{"seconds": 0}', "--wait").id
    logs = run("jobs", "logs", job_id).out
    assert [line.split(" ", 1)[1] for line in logs.splitlines()] == ["info falling asleep", "info \\x1b[31mawake"]
    lines = json.loads(run("jobs", "logs", job_id, "--json").out)["items"]
    assert [line["message"] for line in lines] == ["falling asleep", "\x1b[31mawake"]
    assert (lines[0]["attempt"], lines[0]["level"], lines[0]["fields"]) == (1, "info", {})


def _shown(job_id: str) -> dict:
    return json.loads(run("jobs", "show", job_id, "--json").out)
