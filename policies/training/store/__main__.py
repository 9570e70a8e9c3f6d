"""`python -m policies.training.store COMMAND ...`: look at stores, and move demonstrations in and out."""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from policies.training.store import demonstrations, interventions, samples, segments
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.encodings import ENCODINGS
from policies.training.store.frames import BadStore
from policies.training.store.survey import survey
from steadyhand.errors import SteadyhandError
from steadyhand.types import Skill


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m policies.training.store", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (
        ("summary", "what a store holds"), ("survey", "what is intact of a store, damaged or not"),
        ("export", "demonstrations as a LeRobot data set"), ("import", "a LeRobot data set into demonstrations"),
        ("interventions", "recorded interventions into demonstrations"),
    ):  # fmt: skip
        commands.add_parser(name, help=words).add_argument("store", type=Path, help="folder of the store")
    export, load, people = (commands.choices[name] for name in ("export", "import", "interventions"))
    export.add_argument("dataset", type=Path, help="folder to be made")
    export.add_argument("--version", default="v3.0", choices=["v2.1", "v3.0"])
    export.add_argument("--robot-type", default=None)
    export.add_argument("--successes", action="store_true", help="only the successful ones")
    load.add_argument("dataset", type=Path)
    load.add_argument("--env", default=None, help="environment of a data set that is not ours")
    load.add_argument("--joint-names", default="", help="its joints in order, separated by commas")
    load.add_argument("--skip", default="", help="columns to leave out, separated by commas")
    people.add_argument("recordings", type=Path, help="folder of recordings, as out/interventions")
    people.add_argument("--formulation", default="cartesian_delta", choices=list(ENCODINGS))
    people.add_argument("--skill", default=Skill.PICK.value, choices=[skill.value for skill in Skill])
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit status 1, with the reason, when something is refused; `survey` when something is wrong."""
    options = _parser().parse_args(argv)
    try:
        return {
            "summary": _summary, "survey": _survey, "export": _export, "import": _import,
            "interventions": _interventions,
        }[options.command](options)  # fmt: skip
    except SteadyhandError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1


def _summary(options: argparse.Namespace) -> int:
    chain = segments.chain(options.store)
    if not chain:
        raise BadStore(f"{options.store}: no store")
    if chain[0].header["kind"] == samples.KIND:
        schema = samples.schema_of(options.store)
        counts = [len(batch[schema.fields[0].name]) for batch in samples.read(options.store, schema)]
        said = {"samples": sum(counts), "batches": len(counts), "fields": schema.to_json()}
    else:
        said = demonstrations.summary(demonstrations.read(options.store))
    print(json.dumps({"segments": len(chain), **said}, indent=1))
    return 0


def _survey(options: argparse.Namespace) -> int:
    found = survey(options.store)
    print(f"{found.records} records intact, {found.missing} gone, {found.tail_bytes} bytes at ends that are no record")
    for problem in found.problems:
        print(f"- {problem}")
    return int(bool(found.problems))


def _export(options: argparse.Namespace) -> int:
    from policies.training.store.lerobot_export import export

    wanted = (lambda episode: episode.success) if options.successes else None
    episodes = demonstrations.read(options.store, wanted)
    info = export(episodes, options.dataset, options.version, options.robot_type)
    print(f"{options.dataset}: {info['total_episodes']} episodes, {info['total_frames']} frames, {options.version}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from policies.training.store.lerobot_import import About, add

    about = options.env and About(options.env, joint_names=_words(options.joint_names))
    with DemonstrationStore(options.store) as store:
        before = len(store)
        ids = add(options.dataset, store, about or None, _words(options.skip))
        print(f"{len(ids)} episodes read, {len(store) - before} of them new; hash {store.hash()}")
    return 0


def _interventions(options: argparse.Namespace) -> int:
    found = interventions.from_folder(options.recordings, options.formulation, Skill(options.skill))
    for reason in found.refused:
        print(f"refused: {reason}")
    with DemonstrationStore(options.store) as store:
        before = len(store)
        store.extend(found.episodes)
        print(f"{len(found.episodes)} episodes, {len(store) - before} of them new; hash {store.hash()}")
    return 0


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


if __name__ == "__main__":
    sys.exit(main())
