"""What the figures were taken on: without it they say nothing."""

import os
import platform
import subprocess
from pathlib import Path

import windlass
from windlass.db import Database, statement

_FACTS = statement(__file__, "facts")
_CPUINFO = Path("/proc/cpuinfo")


async def facts_of(database: Database) -> dict[str, str]:
    """The database's version, and the settings that matter."""
    return {row["name"]: row["value"] for row in await database.rows(_FACTS)}


def machine() -> dict[str, object]:
    """The machine, as far as speed goes."""
    return {
        "cores": _cores(),
        "memory_gb": _memory_gb(),
        "cpu": _cpu_model(),
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def version() -> str:
    """Windlass's version; from a checkout with its commit, and `.dirty` when more than that was measured."""
    room = Path(windlass.__file__).resolve().parent
    commit = _git(room, "rev-parse", "--short", "HEAD") if (room.parents[1] / ".git").exists() else None
    if not commit:
        return windlass.__version__
    dirty = ".dirty" if _git(room, "status", "--porcelain", "--", str(room)) else ""
    return f"{windlass.__version__}+g{commit}{dirty}"


def _git(room: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(room), *arguments], capture_output=True, text=True, check=True, timeout=10)  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError):
        return None


def _cpu_model() -> str:
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())
