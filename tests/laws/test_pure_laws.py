"""Laws of the pure parts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.model import Backoff, Fail, JobState, Retry, Snooze, verdict
from windlass.model.durations import seconds
from windlass.model.errors import NotStorable, UsageError, WindlassError
from windlass.model.states import ENDS, TRANSITIONS
from windlass.model.storable import MAX_PAYLOAD_BYTES, check_json, clean_text, encode

backoffs = st.builds(
    Backoff, st.sampled_from(["exponential", "fixed"]), st.floats(0, 1e9), st.floats(0, 100), st.floats(0, 1e9), st.floats(0, 1)
)


@given(backoffs, st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_finite_and_within_its_cap_whatever_the_numbers(policy, attempt, chance):
    """F-22."""
    delay = policy.delay(attempt, chance)
    assert math.isfinite(delay)
    assert 0 <= delay <= max(policy.max_seconds, 0)


@given(st.floats(0.001, 1e6), st.floats(1, 100), st.floats(1, 1e9), st.integers(1, 10**5))
def test_an_exponential_delay_never_shrinks(delay, factor, cap, attempt):
    policy = Backoff("exponential", delay, factor, cap, 0.0)
    assert policy.delay(attempt + 1) >= policy.delay(attempt) * (1 - 1e-9)


@given(st.integers(1, 5), st.integers(1, 5), backoffs)
def test_a_try_in_vain_either_waits_or_is_a_dead_letter(attempt, most, policy):
    became = verdict(Retry(), attempt, most, policy, 0.5)
    assert (became.state is JobState.DEAD_LETTER) == (attempt >= most)
    assert (became.retry_after is None) == (became.state is not None)


@given(st.integers(1, 100))
def test_only_a_snooze_is_free(attempt):
    assert not verdict(Snooze(5), attempt, 1, Backoff(), 0.5).spends_attempt
    assert verdict(Fail("x"), attempt, 1, Backoff(), 0.5).spends_attempt


def test_every_state_can_be_left_and_ends_only_by_hand():
    assert TRANSITIONS.keys() == set(JobState)
    for end in ENDS:
        assert TRANSITIONS[end] == {JobState.QUEUED}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text() | st.binary(max_size=3) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=12,
)  # fmt: skip


@given(json_like)
def test_what_is_encoded_is_storable_and_what_is_not_is_refused_with_a_reason(value):
    """F-24."""
    try:
        text = encode(value)
    except NotStorable as problem:
        assert str(problem)
        return
    assert "\\u0000" not in text
    assert "NaN" not in text
    assert text == check_json(text)
    text.encode()


@given(st.text(st.characters(), max_size=200) | st.just("\ud800\x00"), st.integers(20, 100))
def test_cleaned_text_can_always_be_stored(text, limit):
    clean = clean_text(text, limit)
    assert "\x00" not in clean
    clean.encode()
    assert len(clean) <= limit


@pytest.mark.parametrize("size", [MAX_PAYLOAD_BYTES - 1, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1])
def test_the_size_limit_is_exact(size):
    """F-23."""
    value = "x" * (size - 2)
    if size <= MAX_PAYLOAD_BYTES:
        assert len(encode(value)) == size
    else:
        with pytest.raises(NotStorable, match="at most"):
            encode(value)


def test_nesting_has_a_limit():
    deep: object = 1
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(NotStorable):
        encode(deep)


@pytest.mark.parametrize(
    ("text", "is_"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("100ms", 0.1), (" 1 h ", 3600)]
)
def test_durations_are_read_as_people_write_them(text, is_):
    assert seconds(text) == pytest.approx(is_)


@pytest.mark.parametrize("wrong", ["", "soon", "5x", "-3s", "1h later", -1, float("nan"), float("inf"), 1e12])
def test_other_durations_are_refused(wrong):
    with pytest.raises(UsageError):
        seconds(wrong)


@given(st.text())
def test_no_text_makes_the_duration_reader_stumble(text):
    try:
        assert seconds(text) >= 0
    except WindlassError:
        pass
