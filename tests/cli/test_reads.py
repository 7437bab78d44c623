"""What may run, and who runs it."""

import json

from cli.shell import run, worker


def test_definitions_show_what_a_payload_is_made_of(shop_url):
    lines = run("definitions", "ls").out.splitlines()
    assert lines[0].split() == ["key", "status", "kind", "queue", "payload", "attempts", "timeout", "description"]
    assert next(line for line in lines if line.startswith("greet")).split()[:5] == [
        "greet",
        "active",
        "handler",
        "default",
        "name?",
    ]
    items = json.loads(run("definitions", "ls", "--json").out)["items"]
    greet = next(item for item in items if item["key"] == "greet")
    assert greet["arg_schema"]["properties"]["name"]["type"] == "string"
    assert (greet["max_attempts"], greet["timeout_seconds"], greet["is_active"]) == (3, 3600.0, True)


def test_a_fresh_database_says_how_to_go_on(windlass_url):
    for noun in ("definitions", "workers"):
        told = run(noun, "ls")
        assert (told.status, told.out) == (0, "")
        assert "windlass worker -A" in told.err
        assert json.loads(run(noun, "ls", "--json").out) == {"items": []}


def test_workers_are_listed_while_they_live_and_with_all_afterwards(shop_url):
    with worker("--name", "anna", "--queues", "default,mail") as anna:
        (line,) = run("workers", "ls").out.splitlines()[1:]
        assert line.split()[:4] == ["anna", "alive", "0/100", "default,mail"]
        anna.process.terminate()
        assert anna.ended() == 0
    assert "No worker runs" in run("workers", "ls").err
    (item,) = json.loads(run("workers", "ls", "--all", "--json").out)["items"]
    assert (item["name"], item["ended_why"], item["queues"]) == ("anna", "left", ["default", "mail"])
