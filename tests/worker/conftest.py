"""An app on a fresh database."""

import pytest

from windlass import Windlass


@pytest.fixture
def app(windlass_url):
    return Windlass(windlass_url, name="tests")
