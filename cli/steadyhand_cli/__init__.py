"""The `steadyhand` command. Composes every package; imported by none.

Law of this folder: each sub-command is one module with `add_parser(subparsers)` and `run(args) -> exit code`.
"""
