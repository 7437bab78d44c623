"""Settings: where they come from, which of them counts, and what is said of those that are wrong."""

from pathlib import Path

import pytest

from windlass.model.errors import NotConfigured
from windlass.settings import Settings, load_settings

TOML = """
database_url = "postgresql://file/x"
port = 9000
log_format = "json"
tenant = "acme"
"""


@pytest.fixture
def load(tmp_path):
    """Load from these variables, and from a file with this text."""

    def load(toml: str | bytes = "", **environ: str) -> Settings:
        (tmp_path / "windlass.toml").write_bytes(toml if isinstance(toml, bytes) else toml.encode())
        return load_settings({"HOME": "/home/ann", **environ}, tmp_path)

    return load


def test_without_anything_there_are_defaults(load):
    told = load()
    assert (told.database_url, told.host, told.port, told.log_format, told.tenant) == (
        None,
        "127.0.0.1",
        8420,
        "console",
        "default",
    )


def test_the_file_counts_more_than_the_default(load):
    told = load(TOML)
    assert (told.database_url, told.port, told.log_format, told.tenant) == ("postgresql://file/x", 9000, "json", "acme")


def test_the_environment_counts_more_than_the_file(load):
    told = load(TOML, WINDLASS_DATABASE_URL="postgresql://env/x", WINDLASS_PORT="1", WINDLASS_LOG_FORMAT="console")
    assert (told.database_url, told.port, told.log_format, told.tenant) == ("postgresql://env/x", 1, "console", "acme")


def test_without_a_file_there_is_only_the_environment(tmp_path):
    assert load_settings({"WINDLASS_TENANT": "acme"}, tmp_path / "nowhere").tenant == "acme"


def test_an_empty_variable_hides_nothing(load, tmp_path):
    (tmp_path / "key").write_text("secret\n")
    empty = {f"WINDLASS_{name}": "" for name in ("DATABASE_URL", "PORT", "LOG_FORMAT", "TENANT", "SECRET_KEY", "HOME")}
    told = load(TOML, **empty, WINDLASS_SECRET_KEY_FILE=str(tmp_path / "key"))
    assert (told.database_url, told.port, told.log_format, told.tenant) == ("postgresql://file/x", 9000, "json", "acme")
    assert told.secret_key == "secret"


def test_an_empty_value_in_the_file_is_as_good_as_none(load):
    assert load('log_format = ""\ndatabase_url = ""') == load()


@pytest.mark.parametrize("name", ["DATABASE_URL", "LISTEN_URL", "SECRET_KEY", "REDIS_URL", "TOKEN"])
def test_a_secret_may_lie_in_a_file_of_its_own(load, tmp_path, name):
    (tmp_path / "secret").write_text("  ü\n", encoding="utf-8")
    named = {f"WINDLASS_{name}_FILE": str(tmp_path / "secret")}
    assert getattr(load(**named), name.lower()) == "ü"
    assert getattr(load(**named, **{f"WINDLASS_{name}": "itself"}), name.lower()) == "itself"
    assert getattr(load(f'{name.lower()} = "toml"', **named), name.lower()) == "ü"


def test_what_is_no_secret_has_no_file(load, tmp_path):
    assert load(WINDLASS_PORT_FILE=str(tmp_path / "nowhere")).port == 8420


def test_the_home_is_found_from_the_users_own(load, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert load().home == Path("/home/ann/.local/share/windlass")
    assert load(XDG_DATA_HOME="/data").home == Path("/data/windlass")
    assert load(WINDLASS_HOME="/elsewhere").home == Path("/elsewhere")


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"WINDLASS_PORT": "http"}, "port is 'http': it must be a number from 0 to 65535"),
        ({"WINDLASS_PORT": "65536"}, "port is '65536'"),
        ({"WINDLASS_LOG_FORMAT": "xml"}, "log_format is 'xml': it can be json or console"),
        ({"WINDLASS_HOME": "~nobody-of-that-name/x"}, "there is no such user"),
    ],
)
def test_a_wrong_value_is_told_with_what_it_can_be(load, environ, told):
    with pytest.raises(NotConfigured, match=told):
        load(**environ)


def test_all_that_is_wrong_is_told_at_once(load):
    with pytest.raises(NotConfigured, match="unknown setting 'prot'.*port is.*log_format is"):
        load('prot = 1\nport = "x"\nlog_format = "xml"')


@pytest.mark.parametrize(("toml", "told"), [("port = ", "cannot be read"), (b"tenant = '\xff'", "it is not UTF-8 text")])
def test_a_file_that_cannot_be_read_is_told_by_its_name(load, toml, told):
    with pytest.raises(NotConfigured, match=f"windlass.toml.*{told}"):
        load(toml)


@pytest.mark.parametrize(("content", "told"), [(None, "No such file"), (b"\xff", "it is not UTF-8 text"), (b" \n", "is empty")])
def test_a_secret_that_cannot_be_read_is_told_by_its_name(load, tmp_path, content, told):
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(NotConfigured, match=f"{tmp_path}/secret.*{told}"):
        load(WINDLASS_TOKEN_FILE=str(tmp_path / "secret"))
