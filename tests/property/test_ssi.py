"""Stability index over any images: bounded, blind to the order of images and detections and to where objects lie."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from steadyhand.types import Detection
from steadyhand_perception.ssi import Seen, SsiConfig, report

CONFIG = SsiConfig(images_min=2)
detection = st.builds(
    lambda spot, dx, dy, yaw, p: Detection(np.array([0.4 + 0.08 * spot + dx, dy, 0.02]), yaw, p, 0.002),
    st.integers(0, 3), st.floats(-0.004, 0.004), st.floats(-0.004, 0.004), st.floats(-0.7, 0.7), st.floats(0, 1),
)
image = st.lists(detection, max_size=4, unique_by=lambda d: round((d.position_m[0] - 0.4) / 0.08)).map(
    lambda objects: Seen(tuple(objects))
)
images = st.lists(image, min_size=2, max_size=8)


@settings(max_examples=60, deadline=None)
@given(images, st.randoms(use_true_random=False))
def test_order_and_place_change_nothing(seen, random):
    before = report([seen], CONFIG)
    shuffled = [Seen(tuple(random.sample(i.objects, len(i.objects)))) for i in random.sample(seen, len(seen))]
    moved = [
        Seen(tuple(Detection(d.position_m + [0.05, -0.03, 0], d.yaw_rad, d.presence, 0.002) for d in i.objects))
        for i in seen
    ]
    for other in (report([shuffled], CONFIG), report([moved], CONFIG)):
        assert set(other.signals) == set(before.signals)
        for name, signal in before.signals.items():
            assert other.signals[name].worst == pytest.approx(signal.worst, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(images)
def test_probabilities_and_yaw_are_bounded(seen):
    for name, bound in (("presence", 0.5), ("yaw", 1.0)):
        signal = report([seen], CONFIG).signals.get(name)
        assert signal is None or 0.0 <= signal.p50 <= signal.p95 <= signal.worst <= bound + 1e-9
