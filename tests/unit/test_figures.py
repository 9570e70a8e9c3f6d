"""The page of figures says what the committed results say."""
import json

import pytest

from benchmarks import _report
from benchmarks.common import wilson


def test_page_is_what_the_results_say():
    assert _report.PAGE.read_text() == _report.page(), "run python -m benchmarks._report"


@pytest.mark.parametrize("path", sorted(_report.RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_results_have_the_common_shape(path):
    result = json.loads(path.read_text())
    assert set(result) == {"name", "n", "load", "scheduler", "machine", "commit", "metrics"}
    assert result["name"] == path.stem and result["n"] > 0


@pytest.mark.parametrize(("k", "n", "low", "high"), [(200, 200, 0.9812, 1.0), (0, 10, 0.0, 0.2775), (190, 200, 0.9104, 0.9726)])
def test_wilson_interval(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=2e-4)
