"""The diagnosis names a layer with evidence of all, the report says what to do, and both reach disk and webhook."""
import json

import pytest

from steadyhand import diagnosis, report
from steadyhand.diagnosis import EXPECTED_RECOVERY, LAYERS, LAYERS_IN_ORDER, Evidence
from steadyhand.retention import StorageConfig
from steadyhand.task import Failure
from steadyhand_firmware_bridge.storage import Store
from steadyhand_ros.report_writer import ReportWriter
from steadyhand_sim.kinematic_cell import KinematicCell, scatter

BOOKKEEPING = {
    "policy_calls": 40, "served_local": 38, "fault_policy_timeout": 2, "refused_workspace": 3, "braked": 1,
    "fault_grasp_empty": 5,
}


def evidence(**more) -> Evidence:
    c = KinematicCell(scatter(2, 0), 0)
    c.warm_up()
    return Evidence(
        c.state(), c.estimate, BOOKKEEPING, placed=1, attempted=2, task="clear_tray", goal_id="g",
        latency_ms=(3.0, 4.0), **more,
    )


def failures(*names: str) -> list[Failure]:
    return [Failure(name, 10.0 + k, "grasp", f"detail | {k}", "re-perceive") for k, name in enumerate(names)]


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_of_the_failures_is_named_with_evidence_and_something_to_do(name):
    d = diagnosis.diagnose(failures(*[name] * 5), "given up", evidence())
    layer, check = LAYERS[name]
    assert (d.layer, d.share) == (layer, 1.0)
    assert any(name in finding for finding in d.findings[layer])
    assert any(check in action for action in d.actions) and d.expected_recovery == EXPECTED_RECOVERY[layer]


def test_evidence_is_collected_for_every_layer():
    d = diagnosis.diagnose(failures("grasp_empty"), "given up", evidence())
    assert tuple(d.findings) == LAYERS_IN_ORDER
    seen = d.findings["perception"]
    assert any("NOMINAL" in f for f in seen) and any("object" in f for f in seen)
    assert any("policy_calls 40" in f for f in d.findings["policy"]) and any("p99" in f for f in d.findings["policy"])
    assert any("refused_workspace 3" in f for f in d.findings["execution"])
    assert any("mrad" in f for f in d.findings["hardware"])
    assert any("fault_policy_timeout 2" in f for f in d.findings["communication"])


def test_the_later_failures_decide_a_tie():
    d = diagnosis.diagnose(failures("target_lost", "grasp_empty"), "given up", evidence())
    assert d.layer == "hardware" and d.share == 0.5


def test_only_the_last_five_failures_name_the_layer():
    d = diagnosis.diagnose(failures(*["grasp_empty"] * 4, *["target_lost"] * 3), "given up", evidence())
    assert d.layer == "perception" and [f.stamp_s for f in d.failures] == [12.0, 13.0, 14.0, 15.0, 16.0]
    assert len(d.measures) == 7


def test_the_report_has_everything_a_technician_needs():
    given_up = diagnosis.diagnose(failures("grasp_empty", "grasp_lost"), "given up", evidence())
    text = report.markdown(given_up, "2026-01-01 10:00")
    for heading in ("**Time:** 2026-01-01 10:00", "**Scope:** goal clear_tray: 1 placed", "**Layer:** hardware",
                    "**Expected recovery:**", "## What to do", "1. check finger pads",
                    "## Measures taken by itself", "after grasp_empty in grasp: re-perceive",
                    "## Evidence by layer", "hardware **(named as failing)**"):
        assert heading in text, heading
    assert "detail / 0" in text  # no text breaks the table


def test_reports_are_written_indexed_and_handed_on(tmp_path):
    class Hook:
        documents, closed = [], False

        def put(self, document):
            self.documents.append(json.loads(json.dumps(document)))

        def close(self):
            self.closed = True

    hook = Hook()
    writer = ReportWriter(Store(tmp_path, "reports", StorageConfig()), "abc", hook)
    d = diagnosis.diagnose(failures("grasp_empty"), "gave | up", evidence())
    paths = [writer.put(d), writer.put(d)]
    writer.close()
    assert len(set(paths)) == 2 and all(p.read_text().startswith("# The task was given up") for p in paths)
    index = (tmp_path / "reports" / "index.md").read_text()
    assert index.count(report.INDEX_HEAD) == 1 and all(f"[{p.name}]({p.name})" in index for p in paths)
    assert "gave / up" in index and writer.errors == 0 and hook.closed
    assert [x["layer"] for x in hook.documents] == ["hardware"] * 2 and hook.documents[0]["report"] == paths[0].name


def test_the_index_forgets_what_anybody_deleted_and_bad_bytes_in_it_end_nothing(tmp_path):
    writer = ReportWriter(Store(tmp_path, "reports", StorageConfig()), "abc")
    d = diagnosis.diagnose(failures("grasp_empty"), "[x](x.md) \udcff \N{DEGREE SIGN}", evidence())
    gone, stays = writer.put(d), writer.put(d)
    writer.close()
    gone.unlink()  # as a sweep does
    index = tmp_path / "reports/index.md"
    with index.open("ab") as file:
        file.write(b"| half a line \xc3")  # of a disk that was full
    writer = ReportWriter(Store(tmp_path, "reports", StorageConfig()), "def")
    newest = writer.put(d)
    writer.close()
    rows = index.read_text().removeprefix(report.INDEX_HEAD).splitlines()
    assert [report.indexed(row) for row in rows] == [stays.name, newest.name] and writer.errors == 0


def test_a_folder_that_cannot_be_written_is_counted_and_the_webhook_still_hears(tmp_path):
    class Hook:
        count = 0

        def put(self, document):
            self.count += 1

        def close(self):
            pass

    (tmp_path / "file").write_text("")
    hook = Hook()
    writer = ReportWriter(Store(tmp_path / "file", "reports", StorageConfig()), "abc", hook)
    writer.put(diagnosis.diagnose(failures("grasp_empty"), "given up", evidence()))
    writer.close()
    assert writer.errors == 1 and hook.count == 1
