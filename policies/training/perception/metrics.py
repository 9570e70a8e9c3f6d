"""How good detections are: one-to-one matching with the truth, errors, misses, false reports, Wilson intervals."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.common import wilson
from policies.training.perception.dataset import IGNORED, NOT_ASKED, PRESENT
from steadyhand import cell
from steadyhand_perception.maps import Peaks, wrap_yaw

MATCH_M = 0.02  # a detection within half a cube of a cube's centre is that cube


@dataclass(frozen=True)
class Matched:
    """One image scored. Detections on ignored cubes are neither right nor wrong; cubes outside the tray are left out
    unless `everywhere`."""

    error_m: np.ndarray  # (M,) of matched cubes
    yaw_error_rad: np.ndarray  # (M,)
    std_m: np.ndarray  # (M,) predicted
    misses: int
    false: int
    peak_logit: np.ndarray  # (D,) of all detections that are right or wrong
    peak_right: np.ndarray  # (D,) bool
    scratch_logit: np.ndarray  # (S,) of matched cubes that are asked for a scratch
    scratched: np.ndarray  # (S,) bool
    not_inspected: np.ndarray  # (U,) bool: `scratched` of the cubes that are asked but were missed


def match(
    peaks: Peaks, cubes: np.ndarray, label: np.ndarray, scratch: np.ndarray | None = None, everywhere: bool = False
) -> Matched:
    """Score one image: `cubes` (K, 3), `label` (K,) and `scratch` (K,) as in a shard."""
    asked_scratch = np.full(len(label), NOT_ASKED) if scratch is None else scratch
    asked_scratch = asked_scratch[label == PRESENT]
    present, ignored = cubes[label == PRESENT], cubes[label == IGNORED]
    inside = np.array([everywhere or cell.TRAY.contains(xy) for xy in present[:, :2]], dtype=bool)
    asked = np.array([everywhere or cell.TRAY.contains(xy, -0.02) for xy in peaks.xy_m], dtype=bool)
    distance = np.linalg.norm(peaks.xy_m[:, None] - present[None, :, :2], axis=-1)
    rows, columns = linear_sum_assignment(np.minimum(distance, 10 * MATCH_M))
    good = distance[rows, columns] < MATCH_M
    rows, columns = rows[good], columns[good]
    free = (np.linalg.norm(peaks.xy_m[:, None] - ignored[None, :, :2], axis=-1) < 2 * MATCH_M).any(axis=1)
    right = np.zeros(len(peaks.xy_m), bool)
    right[rows] = True
    counted = right | (asked & ~free)
    of_tray = inside[columns]
    yaw_error = np.abs(wrap_yaw(peaks.yaw_rad[rows] - present[columns, 2]))
    known = (asked_scratch != NOT_ASKED) & inside
    seen = np.zeros(len(present), bool)
    seen[columns] = True
    inspected = known[columns]
    return Matched(
        distance[rows, columns][of_tray], yaw_error[of_tray], peaks.std_m[rows][of_tray],
        int(inside.sum() - of_tray.sum()), int((counted & ~right).sum()), peaks.logit[counted], right[counted],
        peaks.scratch_logit[rows][inspected], asked_scratch[columns][inspected] == 1,
        asked_scratch[known & ~seen] == 1,
    )


def inspection(results: list[Matched], limit_logit: float = 0.0) -> dict:
    """Decisions on scratches: an item is rejected from `limit_logit` on; a missed item counts as decided wrongly."""
    logit = np.concatenate([r.scratch_logit for r in results])
    scratched = np.concatenate([r.scratched for r in results])
    missed = np.concatenate([r.not_inspected for r in results])
    accept = int((logit[scratched] < limit_logit).sum() + missed.sum())
    reject = int((logit[~scratched] >= limit_logit).sum() + (~missed).sum())
    items = len(logit) + len(missed)
    wrong = accept + reject
    return {
        "items": items, "defective": int(scratched.sum() + missed.sum()), "not_seen": len(missed),
        "false_accept": accept, "false_reject": reject, "wrong_rate": round(wrong / max(items, 1), 5),
        "wrong_high": round(wilson(wrong, items)[1], 5),
    }


def summary(results: list[Matched]) -> dict:
    """Figures over images: errors in mm and degrees, rates with Wilson intervals."""
    error = np.concatenate([r.error_m for r in results]) if results else np.zeros(0)
    yaw = np.concatenate([r.yaw_error_rad for r in results]) if results else np.zeros(0)
    misses, false = sum(r.misses for r in results), sum(r.false for r in results)
    n = len(error) + misses
    found = {"images": len(results), "cubes": n, "misses": misses, "false_positives": false}
    if len(error):
        found |= {
            "position_mm_p50": float(np.median(error) * 1e3), "position_mm_p95": float(np.percentile(error, 95) * 1e3),
            "position_mm_p99": float(np.percentile(error, 99) * 1e3), "position_mm_max": float(error.max() * 1e3),
            "yaw_deg_p50": float(np.degrees(np.median(yaw))), "yaw_deg_p95": float(np.degrees(np.percentile(yaw, 95))),
        }
    if n:
        found |= {"miss_rate": misses / n, "miss_rate_wilson95": wilson(misses, n)}
    total = len(error) + false
    if total:
        found |= {"false_rate": false / total, "false_rate_wilson95": wilson(false, total)}
    if n + false:
        found["presence_error"] = (misses + false) / (n + false)
    return {k: (round(v, 5) if isinstance(v, float) else v) for k, v in found.items()}
