"""Settings, parsed once into one frozen value: environment first, then `windlass.toml`, then defaults."""

import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass.model.errors import NotConfigured

_NAMES = frozenset({
    "database_url", "listen_url", "home", "host", "port", "secret_key",
    "log_format", "redis_url", "url", "token", "tenant",
})  # fmt: skip
_SECRETS = frozenset({"database_url", "listen_url", "secret_key", "redis_url", "token"})
_SYSTEM_HOME = Path("/var/lib/windlass")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a Windlass process can be told from outside (API §2)."""

    home: Path
    database_url: str | None = None
    listen_url: str | None = None
    host: str = "127.0.0.1"
    port: int = 8420
    secret_key: str | None = None
    log_format: str = "console"
    redis_url: str | None = None
    url: str | None = None
    token: str | None = None
    tenant: str = "default"


def load_settings(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Settings:
    """Read the environment and `windlass.toml`; raises NotConfigured with every problem at once. What is empty counts
    as not set.
    """
    environ = os.environ if environ is None else environ
    told = _from_file((directory or Path.cwd()) / "windlass.toml") | _from_environment(environ)
    problems = [f"unknown setting {name!r}" for name in told if name not in _NAMES]
    port = _port(told.pop("port", "8420"), problems)
    log_format = told.pop("log_format", "console")
    if log_format not in {"json", "console"}:
        problems.append(f"log_format is {log_format!r}: it can be json or console")
    home = _home(told.pop("home", None) or _default_home(environ), problems)
    if problems:
        msg = "The settings are wrong: " + "; ".join(problems) + "."
        raise NotConfigured(msg)
    return Settings(home=home, port=port, log_format=log_format, **told)  # pyright: ignore[reportArgumentType]


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`WINDLASS_X`, and `WINDLASS_X_FILE` for secrets, which wins over nothing but absence."""
    told = {name: value for name in _NAMES if (value := environ.get(f"WINDLASS_{name.upper()}"))}
    for name in _SECRETS - told.keys():
        if path := environ.get(f"WINDLASS_{name.upper()}_FILE"):
            told[name] = _secret(path)
    return told


def _secret(path: str) -> str:
    secret = _read(Path(path), "secret file").strip()
    if not secret:
        msg = f"The secret file {path} is empty."
        raise NotConfigured(msg)
    return secret


def _from_file(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        told = tomllib.loads(_read(path, "file"))
    except tomllib.TOMLDecodeError as problem:
        msg = f"{path} cannot be read: {problem}."
        raise NotConfigured(msg) from problem
    return {name: text for name, value in told.items() if (text := str(value))}


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        msg = f"The {what} {path} cannot be read: {problem.strerror}."
        raise NotConfigured(msg) from problem
    except UnicodeDecodeError as problem:
        msg = f"The {what} {path} cannot be read: it is not UTF-8 text."
        raise NotConfigured(msg) from problem


def _port(text: str, problems: list[str]) -> int:
    if text.isdecimal() and 0 <= int(text) <= 65535:  # noqa: PLR2004
        return int(text)
    problems.append(f"port is {text!r}: it must be a number from 0 to 65535")
    return 0


def _home(told: str | Path, problems: list[str]) -> Path:
    try:
        return Path(told).expanduser().absolute()
    except RuntimeError:
        problems.append(f"home is {str(told)!r}: there is no such user")
        return Path(told)


def _default_home(environ: Mapping[str, str]) -> Path:
    """Root keeps its data where a service does, for the database's own user must be able to reach it."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return _SYSTEM_HOME
    base = environ.get("XDG_DATA_HOME") or environ.get("HOME")
    if base is None:
        return Path(tempfile.gettempdir()) / "windlass"
    return Path(base) / ("windlass" if environ.get("XDG_DATA_HOME") else ".local/share/windlass")
