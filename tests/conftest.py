"""Every test process gets its own slot before anything reads it."""
import os

import pytest

from tests.support.slots import worker_slot


@pytest.fixture(autouse=True, scope="session")
def own_slot(tmp_path_factory):
    """Slot, sockets and output of this worker."""
    os.environ["STEADYHAND_SLOT"] = str(worker_slot())
    os.environ["ROS_DOMAIN_ID"] = str(20 + worker_slot())
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["STEADYHAND_OUT"] = str(tmp_path_factory.mktemp("out"))
