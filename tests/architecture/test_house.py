"""The house, as a test: doors, table owners, sizes, documents."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "windlass"
ROOMS = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py") if p.parent.name != "migrations")
FILES = sorted(p for p in SOURCE.rglob("*.py"))
SQL = sorted(SOURCE.glob("*/sql/*.sql"))
# Which room's SQL may name which table. `processes` looks across all of them for the doctor, `bench` measures them.
OWNERS = {"job_logs": "logs", "job_logs_default": "logs"}
ONLOOKERS = {"processes", "bench"}
DOORS = {"engine": 20, "model": 28}
# What it opens, it closes in the order that lets every job end well: one context in the other.
DEEPER = {"working"}


def functions(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("windlass."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("windlass"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def depth(node: ast.AST, level: int = 0) -> int:
    nested = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
    deepest = level
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        deepest = max(deepest, depth(child, level + (isinstance(child, nested) and not is_elif)))
    return deepest


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_door_names_what_can_be_had_sorted(room):
    door = importlib.import_module(f"windlass.{room}")
    assert door.__doc__
    if room in {"cli", "demo", "processes"}:
        return
    names = list(door.__all__)
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)), names
    assert all(hasattr(door, name) for name in names)
    assert len(names) <= DOORS.get(room, 12)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_is_entered_by_its_door_never_by_a_window(path):
    """A module that begins with an underscore is its room's own."""
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports(path):
        _, entered, *within = [*name.split("."), "", ""]
        assert entered == room or not any(part.startswith("_") for part in within), name


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_and_functions_stay_small(path):
    assert len(path.read_text().splitlines()) <= 400
    for function in functions(path):
        size = function.end_lineno - function.lineno + 1
        assert size <= 50, f"{function.name} has {size} lines"
        assert depth(function) <= (4 if function.name in DEEPER else 3), f"{function.name} is nested too deep"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_import_hides_in_a_function(path):
    for function in functions(path):
        assert not [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)], function.name


@pytest.mark.parametrize("path", SQL, ids=lambda p: f"{p.parts[-3]}/{p.stem}")
def test_each_sql_file_is_one_explained_statement_used_in_its_room(path):
    text = path.read_text()
    assert text.startswith("-- ")
    body = re.sub(r"\$\$.*?\$\$", "", re.sub(r"--.*", "", text), flags=re.DOTALL).strip().rstrip(";")
    assert ";" not in re.sub(r"'[^']*'", "", body)
    users = "".join(p.read_text() for p in path.parents[1].rglob("*.py"))
    assert f'"{path.stem}"' in users, "no function of its room loads it"


@pytest.mark.parametrize("path", SQL, ids=lambda p: f"{p.parts[-3]}/{p.stem}")
def test_a_table_is_named_only_by_its_owners_sql(path):
    room = path.parts[-3]
    if room in ONLOOKERS:
        return
    body = re.sub(r"--.*|'[^']*'", "", path.read_text())
    for table in re.findall(r"\bwindlass\.(\w+)\b(?!\()", body):
        assert OWNERS.get(table, "engine") == room, f"windlass.{table}"


def test_no_room_is_named_for_a_pattern():
    assert not {"utils", "helpers", "common", "core", "managers"} & {p.stem for p in SOURCE.rglob("*")}


def test_every_decision_is_listed_and_every_room_drawn():
    listed = (ROOT / "docs/decisions/README.md").read_text()
    for path in (ROOT / "docs/decisions").glob("0*.md"):
        assert f"({path.name})" in listed
    drawn = (ROOT / "ARCHITECTURE.md").read_text()
    for room in ROOMS:
        assert re.search(rf"\b{room}\b", drawn), room


def test_no_file_names_a_machine_or_a_registry():
    wrong = re.compile("/" + "work/|files\\." + "pythonhosted|pypi\\." + "org|registry\\." + "npmjs")
    for path in [*ROOT.glob("*.*"), *ROOT.glob("requirements/*"), *ROOT.glob("docs/**/*.md"), *FILES]:
        if path.is_file() and path.name != ".git":
            assert not wrong.search(path.read_text(errors="ignore")), path
