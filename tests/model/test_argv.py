"""An allow-listed command gets exactly the arguments its template allows, whatever the payload holds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.model.argv import BadArgument, check_template, render
from windlass.model.errors import UsageError

FACTS = {"tenant_id": "0199-acme", "tenant_slug": "acme", "job_id": "0199-job", "attempt": 2}
NASTY = (
    "$(touch /tmp/owned)",
    "; rm -rf /",
    "`id`",
    "a b\tc",
    "two\nlines",
    "| tee /etc/passwd && true",
    "* ? [a-z] ~",
    "'\"\\",
    "{job_id}",
    "{payload.other}",
    "%s %(x)s",
    "ünï\u202ecødé 🙂",
    "",
)


def rendered(argv: list[str], **payload: object) -> list[str]:
    """The template is valid, and rendered with this payload."""
    check_template(argv)
    return render(argv, FACTS, payload)


def test_facts_and_payload_fields_fill_their_placeholders() -> None:
    argv = [
        "zoltag",
        "{tenant_id}",
        "{tenant_slug}",
        "{job_id}",
        "{attempt}",
        "--model={payload.model}",
        "{payload.a.b}",
    ]
    assert rendered(argv, model="fast", a={"b": 7}) == [
        "zoltag",
        "0199-acme",
        "acme",
        "0199-job",
        "2",
        "--model=fast",
        "7",
    ]


def test_placeholders_stand_together_in_one_argument() -> None:
    assert rendered(["cp", "/data/{tenant_slug}/{payload.name}.json"], name="a b") == ["cp", "/data/acme/a b.json"]


def test_a_path_leads_through_lists_by_number() -> None:
    assert rendered(["ls", "{payload.dirs.1.name}"], dirs=[{}, {"name": "x"}]) == ["ls", "x"]
    assert rendered(["ls", "{payload.dirs.2.name}"], dirs=[{}, {"name": "x"}]) == ["ls"]


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (3, "3"), (1.5, "1.5"), (1e22, "1e+22"), ("", "")])
def test_strings_numbers_and_booleans_are_written_as_in_json(value: object, text: str) -> None:
    assert rendered(["tool", "{payload.x}"], x=value) == ["tool", text]


def test_an_absent_field_drops_its_argument_and_the_option_before_it() -> None:
    argv = ["tool", "--tenant", "{tenant_slug}", "--model", "{payload.model}", "--fast"]
    assert rendered(argv) == ["tool", "--tenant", "acme", "--fast"]
    assert rendered(argv, model=None) == ["tool", "--tenant", "acme", "--fast"]
    assert rendered(argv, model="m") == ["tool", "--tenant", "acme", "--model", "m", "--fast"]


@pytest.mark.parametrize(
    ("argv", "left"),
    [
        (["t", "--fast", "--model={payload.x}"], ["t", "--fast"]),
        (["t", "--level=3", "{payload.x}"], ["t", "--level=3"]),
        (["t", "copy", "{payload.x}"], ["t", "copy"]),
        (["t", "-", "{payload.x}"], ["t", "-"]),
        (["t", "--", "{payload.x}"], ["t", "--"]),
        (["t", "--", "-odd-name", "{payload.x}"], ["t", "--", "-odd-name"]),
        (["t", "-m", "{payload.x}", "{payload.y}", "-k"], ["t", "-k"]),
        (["t", "--{payload.x}", "{payload.y}"], ["t"]),
        (["t", "{payload.a.b.c}"], ["t"]),
    ],
)
def test_nothing_but_an_option_of_its_own_is_dropped_with_an_absent_field(argv: list[str], left: list[str]) -> None:
    assert rendered(argv, a={"b": "not an object"}) == left


@pytest.mark.parametrize("value", NASTY)
def test_a_nasty_value_is_one_argument_as_it_is(value: str) -> None:
    argv = ["tool", "{payload.x}", "--model={payload.x}", "--", "{payload.x}", "end"]
    assert rendered(argv, x=value, other="leaked") == ["tool", value, f"--model={value}", "--", value, "end"]


@pytest.mark.parametrize("value", ["-rf", "--output=/etc/passwd", "-", "--", -5])
def test_a_value_that_could_be_read_as_an_option_is_refused(value: object) -> None:
    for argv in (["tool", "{payload.deep.x}"], ["tool", "{payload.deep.x}{attempt}"], ["tool", "--{payload.deep.x}"]):
        with pytest.raises(BadArgument, match=r"payload\.deep\.x .*begins with '-'") as refused:
            rendered(argv, deep={"x": value})
        assert refused.value.path == "payload.deep.x"


def test_a_dash_is_harmless_inside_an_option_and_after_the_end_of_options() -> None:
    argv = ["tool", "--n={payload.x}", "--", "{payload.x}"]
    assert rendered(argv, x=-5) == ["tool", "--n=-5", "--", "-5"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([1], "a list"),
        ({"a": 1}, "an object"),
        ("a\x00b", "NUL"),
        ("\ud800", "surrogate"),
        (float("nan"), "not a number"),
    ],
)
def test_what_is_no_single_argument_is_refused_by_its_path(value: object, why: str) -> None:
    with pytest.raises(BadArgument, match=rf"^payload\.x .*{why}"):
        rendered(["tool", "--x", "{payload.x}"], x=value)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "first element"),
        ([" "], "first element"),
        ("echo hello", "a list"),
        (["{payload.program}"], "has a placeholder"),
        (["/opt/{tenant_slug}/run"], "has a placeholder"),
        (["t", "{tenant}"], r"\{tenant\}.*not a placeholder.*\{tenant_id\}"),
        (["t", "{payload}"], "not a placeholder"),
        (["t", "{payload.}"], "not a placeholder"),
        (["t", "{payload.a b}"], "not a placeholder"),
        (["t", "{ job_id }"], "not a placeholder"),
        (["t", "${HOME}"], "not a placeholder"),
        (["t", "{{payload.x}}"], "single braces"),
        (["t", "{{event.x}}"], "single braces"),
        (["t", "a\x00"], "NUL"),
        (["t", "\udc80"], "surrogate"),
    ],
)
def test_a_template_that_could_not_work_is_refused_when_it_is_defined(argv: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=re.compile(why, re.DOTALL)):
        check_template(argv)


def test_other_braces_stand_for_themselves() -> None:
    argv = ["find", ".", "-exec", "awk", "{print $1}", "{}", ";", '{"a": {"b": 1}}', "[0-9]{2,3}"]
    assert rendered(argv) == argv


ELEMENTS = st.sampled_from(
    [
        "--",
        "-",
        "-v",
        "--model",
        "--m={payload.a}",
        "{payload.a}",
        "{payload.b}",
        "{payload.c.d}",
        "x{payload.a}{attempt}",
        "go",
    ]
)
SCALARS = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.sampled_from(NASTY))
PAYLOADS = st.dictionaries(st.sampled_from("abc"), SCALARS | st.lists(SCALARS) | st.dictionaries(st.sampled_from("de"), SCALARS))


@given(st.lists(ELEMENTS, max_size=8), PAYLOADS)
def test_law_values_never_add_arguments_nor_options(tail: list[str], payload: dict[str, object]) -> None:
    argv = ["tool", *tail]
    check_template(argv)
    try:
        arguments = render(argv, FACTS, payload)
    except BadArgument:
        return
    assert arguments[0] == "tool"
    assert len(arguments) <= len(argv)
    assert all("\x00" not in argument for argument in arguments)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    written = {element.split("=")[0] for element in tail}
    assert all(option.split("=")[0] in written for option in options if option.startswith("-"))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_law_a_value_arrives_unchanged(value: str) -> None:
    assert render(["tool", "--x={payload.x}", "--", "{payload.x}"], FACTS, {"x": value}) == [
        "tool",
        f"--x={value}",
        "--",
        value,
    ]
