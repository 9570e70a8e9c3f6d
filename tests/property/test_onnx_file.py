"""The reader of ONNX files takes any bytes: it answers, or refuses by name; and reads what was written."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import onnx_file
from tests.support import onnx_models as onnx


def sound() -> bytes:
    weights, bias = onnx.weights_of(0)
    return onnx.model(np.zeros(14), np.ones(14), weights, bias)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("onnx") / "model.onnx"


def taken(path, data):
    """The facts, or None when they are refused; anything else is a failure."""
    path.write_bytes(data)
    try:
        return onnx_file.read(path)
    except ContractError as error:
        assert str(path) in str(error) or "ONNX" in str(error)
        return None


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes(path, data):
    facts = taken(path, data)
    assert facts is None or isinstance(facts.opsets, dict)


@given(st.integers(0, 3000), st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_a_changed_byte(path, at, value):
    data = bytearray(sound())
    data[at % len(data)] = value
    taken(path, bytes(data))


@given(st.floats(0.0, 1.0))
@settings(max_examples=50, deadline=None)
def test_a_cut_file_is_never_taken_for_a_whole_one(path, share):
    data = sound()
    cut = data[: int(share * (len(data) - 1))]
    facts = taken(path, cut)
    if facts is not None:  # cut between two fields: the operator sets stand last
        with pytest.raises(ContractError, match="opset"):
            facts.check_operator_sets()


def test_what_was_written_is_read(path):
    facts = taken(path, sound())
    assert facts.opsets == {"": 17} and facts.ir_version == 8 and facts.producer == "tests"
    weights, bias = onnx.weights_of(0)
    np.testing.assert_array_equal(facts.floats["bias"], np.float32(bias))
    np.testing.assert_array_equal(facts.floats["weights"], np.float32(weights).ravel())
    assert len(facts.vectors(14)) == 2 and "shape" not in facts.floats
    facts.check_operator_sets()


def test_a_missing_file_is_named(path):
    with pytest.raises(ConfigError, match="nowhere"):
        onnx_file.read(path.parent / "nowhere.onnx")


def test_a_field_longer_than_the_file_is_refused(path):
    path.write_bytes(sound() + onnx.varint(15 << 3 | 2) + onnx.varint(100) + b"abc")
    with pytest.raises(ContractError, match="cut off"):
        onnx_file.read(path)


@pytest.mark.parametrize("packed", [True, False])
def test_numbers_written_one_by_one_are_read_too(path, packed):
    """`float_data`, as small tensors are written by some exporters, instead of `raw_data`."""
    wanted = np.float32([0.5, -2.0, 3.0])
    each = [onnx.varint(4 << 3 | 5) + value.tobytes() for value in wanted]
    numbers = onnx.message(4, wanted.tobytes()) if packed else b"".join(each)
    tensor = onnx.number(1, 3) + onnx.number(2, onnx.FLOAT) + onnx.message(8, "mean") + numbers
    path.write_bytes(onnx.message(7, onnx.message(5, tensor)) + onnx.message(8, onnx.number(2, 17)))
    np.testing.assert_array_equal(onnx_file.read(path).floats["mean"], wanted)
