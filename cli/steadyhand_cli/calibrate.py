"""`steadyhand calibrate camera|hand-eye`: from images of a board to a checked file, or a refusal that says why."""
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from steadyhand.errors import ConfigError
from steadyhand_calibration import files
from steadyhand_calibration.board import BoardConfig, View, read_view
from steadyhand_calibration.hand_eye import MIN_VIEWS, MOUNTS, solve_hand_eye
from steadyhand_calibration.hand_eye_views import load_views
from steadyhand_calibration.intrinsics import board_pose, calibrate_camera

BOARD = "5x7:0.035:0.02625:DICT_4X4_50"


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="camera|hand-eye")
    camera = kinds.add_parser("camera", help="intrinsics from images of the board, still and sharp, tilted many ways")
    camera.add_argument("images", nargs="+", type=Path, help="8-bit images of one size")
    camera.add_argument("--camera", required=True, help="which camera: its serial number")
    camera.add_argument("--limit-px", type=float, default=1.0, help="largest error on views left out")
    hand = kinds.add_parser("hand-eye", help="pose of the camera in base_link, or in the tool")
    hand.add_argument("views", type=Path, help='JSON: {"views": [{"image": "0.png", "q_rad": [...]}, ...]}')
    hand.add_argument("--intrinsics", required=True, type=Path, help="file that `calibrate camera` wrote")
    hand.add_argument("--robot", required=True, help="which robot: its serial number")
    hand.add_argument("--mount", choices=MOUNTS, default=MOUNTS[0], help="camera fixed in the cell, or on the tool")
    hand.add_argument("--limit-mm", type=float, default=5.0, help="largest error on views left out")
    for kind in (camera, hand):
        kind.add_argument("--board", default=BOARD, help="columns x rows : square_m : marker_m : dictionary")
        kind.add_argument("--skip", action="store_true", help="leave out images without the board instead of refusing")
        kind.add_argument("--out", required=True, type=Path, help="file to write")


def run(args: argparse.Namespace) -> int:
    return camera(args) if args.kind == "camera" else hand_eye(args)


def read_views(paths: list[Path], board: BoardConfig, skip: bool) -> tuple[list[View], list[int]]:
    """Views of the board and the places of their images; what is skipped is said."""
    board.opencv_board()  # a wrong board is no reason to skip images
    views, places = [], []
    for place, path in enumerate(paths):
        try:
            views.append(read_view(path, board))
            places.append(place)
        except ConfigError as error:
            if not skip:
                raise
            print(f"left out: {error}")
    return views, places


def camera(args: argparse.Namespace) -> int:
    board = BoardConfig.parse(args.board)
    files.check_identity("camera", args.camera)
    views, _ = read_views(args.images, board, args.skip)
    found = calibrate_camera(views, board, args.limit_px)
    files.save(args.out, files.camera_content(found, args.camera, board))
    table = Table("view", "corners", "error when left out, px")
    for view, error_px in zip(views, found.held_out_px):
        table.add_row(view.name, str(len(view.ids)), f"{error_px:.3f}")
    Console().print(table)
    print(
        f"camera {args.camera}: {found.size_px[0]} x {found.size_px[1]} px, fx {found.fx_px:.1f} +- "
        f"{found.focal_std_px:.1f}, fy {found.fy_px:.1f}, cx {found.cx_px:.1f}, cy {found.cy_px:.1f} px, d "
        f"{np.round(found.d, 4).tolist()}\nerror {found.rms_px:.3f} px, on views left out {found.held_out_rms_px:.3f} "
        f"px rms ({len(views)} views): {args.out}"
    )
    return 0


def hand_eye(args: argparse.Namespace) -> int:
    board = BoardConfig.parse(args.board)
    files.check_identity("robot", args.robot)
    intrinsics = files.load_camera(args.intrinsics)
    paths, tool = load_views(args.views)
    if len(paths) < MIN_VIEWS:
        raise ConfigError(f"{args.views}: too few views: {len(paths)}, at least {MIN_VIEWS}")
    views, places = read_views(paths, board, args.skip)
    size = (intrinsics["width_px"], intrinsics["height_px"])
    for view in views:
        if view.size_px != size:
            raise ConfigError(f"{view.name}: mixed sizes: {view.size_px}, the intrinsics are of {size}")
    k, d = np.reshape(intrinsics["k"], (3, 3)), np.array(intrinsics["d"])
    poses = np.array([board_pose(view, board, k, d) for view in views]).reshape(-1, 4, 4)
    names = [view.name for view in views]
    found = solve_hand_eye(tool[places], poses, args.mount, names, args.limit_mm * 1e-3)
    content = files.hand_eye_content(found, intrinsics, args.robot, names)
    files.save(args.out, content)
    table = Table("view", "error, mm", "error when left out, mm", "mrad")
    for row in zip(names, found.error_m * 1e3, found.held_out_m * 1e3, found.held_out_rad * 1e3):
        table.add_row(row[0], *(f"{value:.2f}" for value in row[1:]))
    Console().print(table)
    position = np.round(found.pose_parent_camera[:3, 3], 4).tolist()
    print(
        f"camera {content['camera']} in {content['parent_frame']} of robot {args.robot}: {position} m +- "
        f"{found.std_m * 1e3:.2f} mm\nerror on views left out {content['held_out_rms_m'] * 1e3:.2f} mm, "
        f"{content['held_out_rms_rad'] * 1e3:.2f} mrad rms ({len(views)} views): {args.out}"
    )
    return 0
