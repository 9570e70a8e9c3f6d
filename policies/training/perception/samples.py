"""Write a few test images with their truth for the tests: `python -m policies.training.perception.samples`.

They are the first test images of every number of cubes, not chosen by how the model does on them.
"""
from __future__ import annotations

import json
import sys

from PIL import Image

from policies.training.perception.dataset import HERE, IGNORED, PRESENT, arguments_of, load_config, load_set
from steadyhand import cell

FOLDER = HERE.parents[2] / "tests" / "data" / "perception"


def main() -> int:
    arguments = arguments_of(__doc__.splitlines()[0]).parse_args()
    data = load_set(load_config(arguments.config, arguments.out), "test")
    labels = data.labels
    FOLDER.mkdir(parents=True, exist_ok=True)
    truth = {}
    for n in range(cell.MAX_CUBES + 1):
        k = next(k for k, count in enumerate(labels["n_tray"]) if count == n)
        Image.fromarray(data.sensed(k)).save(FOLDER / f"tray_{n}.png", optimize=True)
        truth[f"tray_{n}.png"] = {
            name: [[round(float(v), 5) for v in cube] for cube in labels["cubes"][k][labels["label"][k] == value]]
            for name, value in (("present", PRESENT), ("ignored", IGNORED))
        }
    content = {"columns": ["x_m", "y_m", "yaw_rad"], "images": truth}
    (FOLDER / "truth.json").write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
