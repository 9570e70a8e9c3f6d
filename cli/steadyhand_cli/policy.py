"""`steadyhand policy`: versions of the policy, what is wrong with one, and which serves: release, roll-back, shadow.

What an operator decides is written to `<out>/policy/MODEL.release.json`; the running agent follows it within a fifth of
a second, from the next episode on. Nothing here touches the robot.
"""
from __future__ import annotations

import argparse
import contextlib
import secrets
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.slot import current_slot
from steadyhand_policies import contract as contracts
from steadyhand_policies import release as releases
from steadyhand_policies import repository as repositories
from steadyhand_policies.checks import check_policy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.release import Release, ReleaseConfig, Version
from steadyhand_policies.release_file import ReleaseFile
from steadyhand_policies.triton_versions import check_version

CONFIG = ReleaseConfig()
DEADLINE_S = 1.0  # of a check on a machine that does other things too; the runtime's is 20 ms
TRIALS_MIN = 100  # of the closed-loop evaluation that a version must carry before it may serve anybody


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--repository", type=Path, default=repositories.DEFAULT_REPOSITORY, help="model repository")
    parser.add_argument("--model", default=repositories.PICK_PLACE)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="versions in the repository, their scores and what they do now")
    check = verbs.add_parser("check", help="everything that can be known of a version without serving it")
    check.add_argument("version", nargs="?", type=int, default=0, help="default: the newest")
    install = verbs.add_parser("install", help="check a trained folder and add it as the next version")
    install.add_argument("folder", type=Path, help="holds model.onnx and contract.json")
    begin = verbs.add_parser("release", help="begin the staged release of a version: 1 %%, 10 %%, all episodes")
    begin.add_argument("version", type=int)
    begin.add_argument("--stable", type=int, default=0, help="what serves the others, when nothing was decided before")
    verbs.add_parser("status", help="where the release stands")
    promote = verbs.add_parser("promote", help="advance the candidate by a stage, on your word")
    promote.add_argument("--all", action="store_true", help="all stages at once: it is the stable version then")
    back = verbs.add_parser("rollback", help="drop the candidate; without one, the stable version before")
    back.add_argument("--why", default="the operator's word")
    shadow = verbs.add_parser("shadow", help="let a version run beside, compared and never commanding")
    shadow.add_argument("version", help="a number, or off")
    serve = verbs.add_parser("serve", help="make a version the stable one at once; ends a release; accepts its content")
    serve.add_argument("version", type=int)


def run(args: argparse.Namespace) -> int:
    """Exit code 1 when a check failed; refusals end in 2 (main)."""
    return VERBS[args.verb](args)


# -- looking ---------------------------------------------------------------------------------------------------------
def list_versions(args: argparse.Namespace) -> int:
    release, table = _file(args).read(), Table("version", "contract", "score", "trained", "role", "")
    bad = 0
    for number in repositories.versions(args.repository, args.model):
        try:
            contract, wrong = repositories.load_contract(_files(args, number)), ""
            cells = contract.sha256[:8], score_said(contract.score), contract.training.commit[:12]
            role = role_of(release, Version(number, contract.sha256))
        except SteadyhandError as error:
            wrong, cells, role, bad = str(error), ("refused", "", ""), role_of(release, number), bad + 1
        table.add_row(str(number), *cells, role, escape(wrong))
    Console().print(table)
    return 1 if bad else 0


def check(args: argparse.Namespace) -> int:
    number = args.version or repositories.newest(args.repository, args.model)
    try:
        contract = check_version(args.repository, number, args.model)
        local = LocalOnnxPolicy(_files(args, number)).open()
        report, provider = check_policy(local, contract, deadline_s=DEADLINE_S), local.provider
        local.close()
    except SteadyhandError as error:
        print(f"refused: {error}")
        return 1
    print(
        f"{args.model} version {number}: contract {contract.sha256[:8]}, {contract.formulation}, "
        f"{contract.rate_hz:g} Hz, horizon {contract.horizon}\nscore: {score_said(contract.score)} "
        f"({contract.score.what})\n{report.observations} observations answered as the contract says, p50 "
        f"{report.latency_p50_ms:.2f} ms on {provider}"
    )
    for line in doubts(contract):
        print(f"not fit for a release: {line}")
    return 0


def status(args: argparse.Namespace) -> int:
    release = _file(args).read()
    if release is None:
        newest = repositories.newest(args.repository, args.model)
        print(f"nothing was decided yet: the agent serves version {newest}, or its parameter policy.version")
        return 0
    print("\n".join(status_lines(release, CONFIG)))
    return 0


def status_lines(release: Release, config: ReleaseConfig) -> list[str]:
    """Where a release stands, for people."""
    lines = [f"stable: version {release.stable}" + (f", before it {release.previous}" if release.previous else "")]
    if release.shadow is not None:
        lines.append(f"shadow: version {release.shadow}; its disagreement: records `shadow` of the trace, /diagnostics")
    if release.candidate is not None:
        stage, judged = config.stages[release.stage], releases.judge(release, config)
        lines += [
            f"candidate: version {release.candidate}, stage {release.stage + 1} of {len(config.stages)}: one episode "
            f"in {stage.every}, margin {stage.margin:g}",
            f"episodes that count: candidate {release.candidate_counts}, stable {release.stable_counts}",
            f"worse: p = {judged.p_worse:.3g}, next look at {judged.worse_at} of the candidate's, rolls back below "
            f"{judged.worse_limit:.2g}",
            f"not worse by {stage.margin:g}: p = {judged.p_not_worse:.3g}, next look at {judged.not_worse_at}, "
            f"advances below {judged.not_worse_limit:.2g}",
        ]
    return lines + [f"  {line}" for line in release.history[-8:]]


def doubts(contract: contracts.PolicyContract) -> list[str]:
    """What keeps a version from being released, beyond what its contract must say."""
    found = []
    if contract.score.n < TRIALS_MIN:
        found.append(f"score.n: {contract.score.n} trials, at least {TRIALS_MIN}")
    if contract.training.commit == "unknown" or contract.training.commit.endswith("-dirty"):
        found.append(f"training.commit: {contract.training.commit!r}: nobody can train it again")
    return found


# -- deciding --------------------------------------------------------------------------------------------------------
def install(args: argparse.Namespace) -> int:
    folder = args.folder
    config = args.repository / args.model / "config.pbtxt"
    files = repositories.PolicyFiles(config, folder / "model.onnx", folder / "contract.json")
    local = LocalOnnxPolicy(files).open()  # contract, file, canary, answers
    repositories.check_config(files, local.contract)
    _same_model(args, local.contract)
    local.close()
    _settle(args)
    print(f"version {repositories.install(folder, args.repository, args.model)}")
    return 0


def _settle(args: argparse.Namespace) -> None:
    """Nothing decided means that the newest serves: what served so far is written down before there is a newer one."""
    if _file(args).read() is not None:
        return
    for number in reversed(repositories.versions(args.repository, args.model)):
        with contextlib.suppress(SteadyhandError):  # one that is refused serves nobody
            version, _ = _version(args, number)
            said = f"stable {version}: the newest when another was installed"
            new = Release(args.model, version, history=(said,))
            _file(args).update(lambda found, new=new: found if found is not None else new)
            print(said)
            return


def begin(args: argparse.Namespace) -> int:
    candidate, contract = _version(args, args.version)
    if found := doubts(contract):
        raise ConfigError(f"version {args.version} is not fit for a release: {'; '.join(found)}")

    def change(before: Release | None) -> Release:
        if before is None:
            others = [n for n in repositories.versions(args.repository, args.model) if n != args.version]
            if not args.stable and not others:
                raise ConfigError(f"version {args.version} is the only one: there is nothing to compare it with")
            before = Release(args.model, _version(args, args.stable or others[-1])[0])
        return releases.begin(before, candidate, secrets.token_hex(8))

    return _decide(args, change)


def promote(args: argparse.Namespace) -> int:
    return _decide(args, lambda before: releases.promote(_decided(before), CONFIG, args.all))


def rollback(args: argparse.Namespace) -> int:
    return _decide(args, lambda before: releases.roll_back(_decided(before), args.why))


def shadow(args: argparse.Namespace) -> int:
    version = None
    if args.version != "off":
        if not args.version.isdecimal():
            raise ConfigError(f"version {args.version!r}: give a number, or off")
        version, _ = _version(args, int(args.version))

    def change(before: Release | None) -> Release:
        if before is None:
            others = [n for n in repositories.versions(args.repository, args.model) if str(n) != args.version]
            if not others:
                raise ConfigError("no other version serves: there is nothing to compare a shadow with")
            before = Release(args.model, _version(args, others[-1])[0])
        return releases.with_shadow(before, version)

    return _decide(args, change)


def serve(args: argparse.Namespace) -> int:
    version, _ = _version(args, args.version)
    file = _file(args)
    try:
        before = file.read()
    except SteadyhandError:
        before = None  # damaged: this decides anew
    previous = before.stable if before is not None and before.stable.number != version.number else None
    history = (*(before.history if before is not None else ()), f"stable {version} by the operator's word")
    file.replace(Release(args.model, version, previous=previous, history=history[-releases.HISTORY_MAX:]))
    print(history[-1])
    return 0


VERBS = {
    "list": list_versions, "check": check, "install": install, "release": begin, "status": status, "promote": promote,
    "rollback": rollback, "shadow": shadow, "serve": serve,
}


# -- parts -----------------------------------------------------------------------------------------------------------
def _decide(args: argparse.Namespace, change) -> int:
    print(_file(args).update(change).history[-1])
    return 0


def _decided(release: Release | None) -> Release:
    if release is None:
        raise ConfigError("nothing was decided yet: `steadyhand policy release VERSION` begins")
    return release


def _file(args: argparse.Namespace) -> ReleaseFile:
    return ReleaseFile(current_slot().out_dir / "policy", args.model)


def _files(args: argparse.Namespace, number: int) -> repositories.PolicyFiles:
    return repositories.policy_files(args.repository, args.model, number)


def _version(args: argparse.Namespace, number: int) -> tuple[Version, contracts.PolicyContract]:
    """A version that passes every check."""
    contract = check_version(args.repository, number, args.model)
    _same_model(args, contract)
    return Version(number, contract.sha256), contract


def _same_model(args: argparse.Namespace, contract: contracts.PolicyContract) -> None:
    if contract.model != args.model:
        raise ConfigError(f"model: the contract is of {contract.model!r}, the repository's folder is {args.model!r}")


def role_of(release: Release | None, version: Version | int) -> str:
    """What a version does now; a number alone: whatever its content."""
    if release is None:
        return ""
    for name in ("stable", "candidate", "shadow", "previous"):
        held = getattr(release, name)
        if held is not None and held.number == (version if isinstance(version, int) else version.number):
            changed = isinstance(version, Version) and held != version
            return f"{name} (its content was changed)" if changed else name
    return ""


def score_said(score: contracts.Score) -> str:
    """The closed-loop result, for people."""
    if score.n == 0:
        return "never evaluated"
    return f"{score.successes} of {score.n} ({score.wilson_low:.3f} to {score.wilson_high:.3f})"
