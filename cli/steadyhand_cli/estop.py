"""`steadyhand estop keyboard | serial | gpio`: a stop plug-in as a process that speaks to the stop socket only."""
from __future__ import annotations

import argparse
import signal

from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.estop import source
from steadyhand_firmware_bridge.estop.gpio import ChipInput, SysfsInput
from steadyhand_firmware_bridge.estop.keyboard import KeyboardInput
from steadyhand_firmware_bridge.estop.serial_line import SerialInput


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="INPUT")
    kinds.add_parser("keyboard", help="any key of this terminal stops")
    serial = kinds.add_parser("serial", help="a button box on a serial line; silence stops")
    serial.add_argument("device", help="such as /dev/ttyUSB0")
    serial.add_argument("--baud", type=int, default=115200)
    serial.add_argument("--timeout", type=float, default=0.150, help="silence that stops, s")
    gpio = kinds.add_parser("gpio", help="a normally closed button on an input pin")
    gpio.add_argument("--sysfs", default="", help="value file, such as /sys/class/gpio/gpio17/value")
    gpio.add_argument("--chip", default="", help="character device, such as /dev/gpiochip0 (needs gpiod)")
    gpio.add_argument("--line", type=int, default=-1, help="line of the chip")
    gpio.add_argument("--pressed", type=int, choices=(0, 1), default=0, help="level when pressed (0: normally closed)")


def run(args: argparse.Namespace) -> int:
    ending = False

    def end(*_) -> None:
        nonlocal ending
        ending = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    return source.run(_input(args), operator.stop, lambda text: print(text, flush=True), lambda: ending)


def _input(args: argparse.Namespace) -> source.StopInput:
    if args.kind == "keyboard":
        return KeyboardInput()
    if args.kind == "serial":
        return SerialInput(args.device, args.baud, args.timeout)
    if args.sysfs:
        return SysfsInput(args.sysfs, args.pressed)
    if not args.chip or args.line < 0:
        raise ConfigError("estop gpio: give --sysfs FILE, or --chip DEVICE and --line NUMBER")
    return ChipInput(args.chip, args.line, args.pressed)
