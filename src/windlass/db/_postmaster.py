"""The server as a process: which one serves a data directory, whether it answers, and as which user it runs.

A pid file alone proves nothing: its pid may be dead, or given to another program since. A PostgreSQL process, though,
always works inside its data directory, so its name and its current folder together tell whose it is.
"""

import os
import pwd
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from windlass.model.errors import EmbeddedError

# It comes with the extra `embedded`, whose absence `start_embedded` tells of before anything here is called.
if TYPE_CHECKING or find_spec("psutil"):
    import psutil

POLL = 0.02
STALL = 60.0  # seconds without a new line in the log
LIMIT = 900.0  # seconds altogether, for a long recovery that keeps telling of its progress
ORPHANS = 20.0  # seconds for the processes of a killed postmaster to end
COMMAND_SECONDS = 300
SERVICE_USER = "windlass"
TOLD_LINES = 15
PORTS = range(5432, 5496)

_COMPLETE = 8  # the lines of a postmaster.pid, of which the last is the status
_STARTUP_BODY = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
_STARTUP = (len(_STARTUP_BODY) + 4).to_bytes(4) + _STARTUP_BODY
_TERMINATE = b"X\x00\x00\x00\x04"
_CANNOT_CONNECT_NOW = b"C57P03\x00"


@dataclass(frozen=True)
class PidFile:
    """What a postmaster wrote of itself into postmaster.pid."""

    pid: int
    port: int
    socket_dir: Path
    status: str

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return socket_path(self.socket_dir, self.port)


class Process(subprocess.Popen[bytes]):
    """A process that may outlive the object: a server stays when its starter leaves, and that is no resource lost."""

    def __del__(self) -> None:
        """Do not warn that it still runs."""


@dataclass(frozen=True)
class Account:
    """The user that PostgreSQL runs as: another than this process's when that is root."""

    uid: int
    gid: int
    other: bool

    def run(self, command: Sequence[str | Path], stdin: bytes = b"", keep: Sequence[int] = ()) -> tuple[int, str]:
        """Run a command to its end; its exit code, and all it said."""
        with self.start(command, subprocess.PIPE, subprocess.PIPE, keep) as process:
            try:
                said, _ = process.communicate(stdin, timeout=COMMAND_SECONDS)
            except BaseException as error:
                process.kill()  # also on a Ctrl-C, which does not reach it in its own session
                if isinstance(error, subprocess.TimeoutExpired):
                    raise EmbeddedError(f"`{command[0]}` did not end within {COMMAND_SECONDS} seconds.") from error
                raise
        return process.returncode, said.decode(errors="replace")

    def run_well(self, command: Sequence[str | Path], stdin: bytes = b"", keep: Sequence[int] = ()) -> None:
        """Run a command that must succeed."""
        code, said = self.run(command, stdin, keep)
        if code:
            raise EmbeddedError(
                f"`{' '.join(map(str, command))}` failed with exit code {code}, so there is no embedded PostgreSQL. "
                f"Put right what it names, and start again; the end of what it said:\n{tail(said)}"
            )

    def start(self, command: Sequence[str | Path], stdin: int, output: int | BinaryIO, keep: Sequence[int] = ()) -> Process:
        """Start a command in a session of its own, so that a Ctrl-C in the terminal is not for it."""
        # PGDATA, PGPORT and the like would be for another PostgreSQL. Its messages are read here, so no translations.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
        return Process(
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=keep,
            cwd="/",
            env=environment,
            start_new_session=True,
            umask=0o077,
            user=self.uid if self.other else None,
            group=self.gid if self.other else None,
            extra_groups=() if self.other else None,
        )

    def private_dir(self, path: Path) -> Path:
        """Make a folder only this user can enter, or make sure that it is one."""
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        # In a shared place such as /tmp, another user could have made it first, to listen there in our stead.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {self.uid, os.geteuid()} or found.st_mode & 0o077:
            raise EmbeddedError(
                f"{path} must be a folder of user {user_name(self.uid)} with mode 0700, for PostgreSQL's socket, and "
                "is not. Remove it and start again."
            )
        self.own(path)
        return path

    def own(self, path: Path) -> None:
        """Give this user a file that we made."""
        if self.other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


@dataclass
class Patience:
    """Bounded waiting, prolonged while `log` grows: a recovery of many minutes tells of itself every ten seconds."""

    stall: float
    log: Path | None = None
    _started: float = field(default_factory=time.monotonic)
    _progress: tuple[float, int] = field(default_factory=lambda: (time.monotonic(), 0))

    def pause(self, otherwise: str) -> None:
        """Rest, or raise EmbeddedError(otherwise) when the patience is over."""
        if self.over():
            raise EmbeddedError(otherwise)
        self.rest()

    def over(self) -> bool:
        """Whether it has been long enough."""
        now = time.monotonic()
        size = self.log.stat().st_size if self.log and self.log.exists() else 0
        if size != self._progress[1]:
            self._progress = (now, size)
        return now - self._progress[0] > self.stall or now - self._started > LIMIT

    def rest(self) -> None:
        """Sleep an instant."""
        time.sleep(POLL)


def socket_path(directory: Path, port: int) -> Path:
    """Where PostgreSQL puts its socket."""
    return directory / f".s.PGSQL.{port}"


def choose_account(data_dir: Path) -> Account:
    """Choose whom PostgreSQL runs as: us, unless we are root; then the data's owner, or a user who has nothing else."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), other=False)
    if data_dir.exists() and (owner := data_dir.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid, other=True)
    chosen = _find_user(SERVICE_USER) or _add_service_user() or _find_user("nobody")
    if chosen is None:
        raise EmbeddedError(
            "PostgreSQL does not run as root, and there is no user to run it as. Add one with "
            f"`useradd --system {SERVICE_USER}`, or set WINDLASS_DATABASE_URL to a PostgreSQL."
        )
    return Account(chosen.pw_uid, chosen.pw_gid, other=True)


def _find_user(name: str) -> pwd.struct_passwd | None:
    with suppress(KeyError):
        return pwd.getpwnam(name)
    return None


def _add_service_user() -> pwd.struct_passwd | None:
    useradd = shutil.which("useradd")
    if useradd:
        flags = ("--system", "--no-create-home", "--shell", "/usr/sbin/nologin")
        subprocess.run([useradd, *flags, SERVICE_USER], check=False, capture_output=True)
    return _find_user(SERVICE_USER)  # also when another process has just added it


def free_port(directory: Path) -> int:
    """Choose the first number whose socket no living process has locked; a dead one's lock PostgreSQL takes over."""
    for port in PORTS:
        lock = Path(f"{socket_path(directory, port)}.lock")
        pid = _pid_in(lock)
        if not lock.exists() or (pid and not psutil.pid_exists(pid)):
            return port
    raise EmbeddedError(f"All sockets in {directory}, from {PORTS[0]} to {PORTS[-1]}, are taken by living processes.")


def user_name(uid: int) -> str:
    """Tell the user's name, or the number of one without a name."""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def serves(pid: int, data_dir: Path) -> bool:
    """Whether this is a living PostgreSQL process of this very data directory, the postmaster or one of its own."""
    try:
        process = psutil.Process(pid)
        # Not by comparing names: a folder may be reached by several. A zombie has no folder, and counts as dead.
        return process.name().startswith("postgres") and Path(process.cwd()).samefile(data_dir)
    except (psutil.Error, OSError):
        # The postmaster runs as the owner of its data, so a process we may not look at is not it.
        return False


def find_postmaster(data_dir: Path) -> PidFile | None:
    """Find the living postmaster of this data directory, ready or not."""
    found = _read_pid_file(data_dir)
    return found if found and serves(found.pid, data_dir) else None


def ready(postmaster: PidFile) -> bool:
    """Whether it takes connections. Asked only once it says so itself: each refusal would be a line in its log."""
    return postmaster.status == "ready" and answers(postmaster.socket)


def wait_for_postmaster(data_dir: Path, log: Path) -> PidFile | None:
    """Give the postmaster of this data directory once it is ready; None when there is none, or none any more."""
    patience = Patience(STALL, log)
    while found := find_postmaster(data_dir):
        if ready(found):
            return found
        patience.pause(
            f"PostgreSQL runs on {data_dir} (pid {found.pid}, its state is {found.status!r}), but does not take "
            f"connections on {found.socket}. If it recovers, try again later; else see {log}, and stop it with "
            f"`kill -INT {found.pid}`."
        )
    return None


def wait_until_ready(server: Process, data_dir: Path, log: Path, said_before: int) -> PidFile:
    """Give the postmaster just started once it is ready. Should patience end first, it is left to its recovery."""
    patience = Patience(STALL, log)
    while server.poll() is None:
        found = find_postmaster(data_dir)
        if found and found.pid == server.pid and ready(found):
            return found
        patience.pause(
            f"PostgreSQL was started on {data_dir} (pid {server.pid}), but does not take connections yet. It goes on: "
            f"see {log}, and start again later to wait for it."
        )
    with log.open("rb") as said:
        said.seek(said_before)
        end = tail(said.read().decode(errors="replace"))
    raise EmbeddedError(
        f"PostgreSQL ended with exit code {server.returncode} instead of starting on {data_dir}. Put right what it "
        f"names, and start again; the end of {log}:\n{end}"
    )


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tail(said: str) -> str:
    """Keep the last lines of what a program said."""
    return "\n".join(said.rstrip().splitlines()[-TOLD_LINES:]) or "(it said nothing)"


def wait_for_orphans(data_dir: Path) -> None:
    """Wait until the processes of a killed postmaster have ended: they still write to its memory and its files."""
    patience = Patience(ORPHANS)
    while pids := [pid for pid in psutil.pids() if serves(pid, data_dir)]:
        told = " ".join(map(str, pids))
        patience.pause(
            f"PostgreSQL cannot start on {data_dir}: processes of an earlier one, whose postmaster is gone, still use "
            f"it: {told}. They end with what they are doing; wait for that, or ask them to with `kill {told}`, and "
            "start again."
        )


def set_aside_recycled_pid_file(data_dir: Path, uid: int) -> None:
    """Rename a pid file whose pid now belongs to a foreign process that would keep PostgreSQL from starting.

    PostgreSQL clears a stale pid file by itself, and only it may, for it also looks at the shared memory named there.
    But it takes any living process of its own user for a postmaster and refuses to start, for as long as that process
    lives. Only then, and only when that process is proven not to be a PostgreSQL, the file is renamed, never deleted.
    Nothing is lost by it: PostgreSQL finds shared memory still in use also from the data directory's inode.
    """
    path = data_dir / "postmaster.pid"
    pid = _pid_in(path)
    if pid is None or pid == os.getpid() or not _looks_alive_to(uid, pid):
        return  # PostgreSQL knows the pid of its parent, which we are, for no postmaster's
    if not _proven_foreign(pid):
        raise EmbeddedError(
            f"{path} names process {pid}, which is now a PostgreSQL of another data directory, or cannot be looked at. "
            f"PostgreSQL does not start while it lives. If no PostgreSQL runs on {data_dir}, rename that file away and "
            "start again."
        )
    path.rename(f"{path}.stale-{time.time_ns()}")


def answers(path: Path) -> bool:
    """Whether a PostgreSQL behind this socket greets a client."""
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.settimeout(5)
        client.connect(os.fspath(path))
        client.sendall(_STARTUP)
        return _greets(client)
    return False


def _greets(client: socket.socket) -> bool:
    reply = client.recv(4096)
    if reply.startswith(b"R"):
        _take_leave(client)
        return True
    # Any other refusal, such as too many connections, comes from a server that runs.
    return reply.startswith(b"E") and _CANNOT_CONNECT_NOW not in reply


def _take_leave(client: socket.socket) -> None:
    """End the session politely: an abrupt end would be a complaint in the log."""
    with suppress(OSError):
        client.sendall(_TERMINATE)
        while client.recv(4096):
            pass


def _read_pid_file(data_dir: Path) -> PidFile | None:
    try:
        lines = os.fsdecode((data_dir / "postmaster.pid").read_bytes()).splitlines()
        pid = int(lines[0])
        # PostgreSQL writes the later lines as it comes to know them.
        complete = len(lines) >= _COMPLETE
        found = (int(lines[3]), Path(lines[4]), lines[7].strip()) if complete else (0, data_dir, "starting")
    except (FileNotFoundError, IndexError, ValueError):
        return None
    return PidFile(pid, *found) if pid > 0 else None  # a negated pid is a single-user session: no postmaster


def _pid_in(path: Path) -> int | None:
    try:
        return abs(int(path.read_bytes().split(b"\n")[0])) or None
    except (FileNotFoundError, ValueError):
        return None


def _looks_alive_to(uid: int, pid: int) -> bool:
    """Whether PostgreSQL, run by this user, would find the process with kill(pid, 0)."""
    try:
        uids = psutil.Process(pid).uids()
    except psutil.Error:
        return False
    return uid in (uids.real, uids.saved)


def _proven_foreign(pid: int) -> bool:
    """Whether the process is certainly no PostgreSQL, or dead and only not waited for by its parent."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or not process.name().startswith("postgres")
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
