"""`windlass db`: the database's migrations, and the embedded server."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from windlass.cli._later import Later
from windlass.cli._words import AsJson, noun

if TYPE_CHECKING:
    from windlass.cli import _connect as connect
    from windlass.cli import _shown as shown
    from windlass.db import embedded
    from windlass.db import migrate as migrations
    from windlass.db.migrate import Standing
    from windlass.processes import up
else:
    connect, shown = Later("windlass.cli._connect"), Later("windlass.cli._shown")
    embedded, migrations = Later("windlass.db.embedded"), Later("windlass.db.migrate")
    up = Later("windlass.processes.up")

app = noun("The database's migrations: run, show, print; stop the embedded one.")


@app.command("migrate")
def migrate() -> None:
    """Apply the migrations that are missing, and make the partitions of the next weeks."""
    applied = connect.on_database(up.bring_up_to_date, migrated=False, make=True, doing="Migrating")
    for one in applied:
        shown.say(f"applied {one.name}")
    if not applied:
        shown.say("Nothing to apply: the database is as this version needs it.")


@app.command("status")
def status(*, as_json: AsJson = False) -> None:
    """Every migration and how it stands; exit status 1 if one is missing or wrong."""
    found = connect.on_database(migrations.standing, migrated=False)
    shown.listing(found, _COLUMNS, none="This version has no migrations.", as_json=as_json)
    if any(one.problem or one.applied_at is None for one in found):
        raise typer.Exit(1)


@app.command("sql")
def sql() -> None:
    """Print the migrations as SQL, for another tool to run."""
    shown.say_raw(migrations.as_script(migrations.known()).rstrip())


@app.command("stop")
def stop() -> None:
    """Stop the embedded PostgreSQL of this home, whoever started it. Its data stays."""
    told = connect.settings()
    server = embedded.find_embedded(told.home)
    if server is None:
        shown.say(f"No PostgreSQL runs in {told.home}.")
        return
    with shown.busy("Stopping PostgreSQL"):
        embedded.stop_embedded(server)
    shown.say(f"Stopped PostgreSQL in {told.home}.")


def _word(one: "Standing") -> str:
    return one.problem or ("pending" if one.applied_at is None else "applied")


def _advice(one: "Standing") -> str:
    match _word(one):
        case "changed":
            return "applied with other content: use the version that applied it, or a fresh database"
        case "from the future":
            return "applied by a newer version: upgrade this installation"
        case "pending":
            return "run `windlass db migrate`"
        case _:
            return ""


_COLUMNS: "dict[str, Callable[[Standing], str]]" = {
    "migration": lambda one: one.name,
    "status": _word,
    "applied": lambda one: f"{one.applied_at:%Y-%m-%d %H:%M:%S} UTC" if one.applied_at else "",
    "what to do": _advice,
}
