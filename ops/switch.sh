#!/bin/sh
# Upgrade and roll-back of an installation: PREFIX/VERSION holds a version each, PREFIX/current names the one in use.
#   ops/switch.sh PREFIX VERSION   checks VERSION with its own `steadyhand doctor`, then makes it the current one
#   ops/switch.sh PREFIX --back    makes the version before it the current one again
# Nothing that runs is touched: restart the service when the arm is at rest (`systemctl restart steadyhand@0`).
set -eu
if [ $# -ne 2 ] || [ ! -d "$1" ]; then
    echo "usage: $0 PREFIX VERSION|--back (PREFIX is a folder)" >&2
    exit 2
fi
cd "$1"
now=$(readlink current || true)
if [ "$2" = --back ]; then
    wanted=$(readlink previous || true)
    [ -n "$wanted" ] || { echo "$1: no version before this one is known" >&2; exit 1; }
else
    wanted=$2
fi
case $wanted in */* | .*) echo "version '$wanted': give the name of a folder in $1" >&2; exit 2 ;; esac
[ -x "$wanted/.venv/bin/steadyhand" ] || { echo "$1/$wanted: no .venv/bin/steadyhand; install it first" >&2; exit 1; }
[ "$wanted" != "$now" ] || { echo "$wanted is the current version already"; exit 0; }
# In a slot that no robot uses: the doctor also asks whether ports are free, and the version before may be running.
if ! STEADYHAND_SLOT=40 "$wanted/.venv/bin/steadyhand" doctor; then
    echo "$wanted: its doctor says no; $( [ -n "$now" ] && echo "$now stays" || echo "nothing is made" ) current" >&2
    exit 1
fi
# A link is replaced in one step: whoever looks sees the old version or the new one. Each on a line of its own: the
# shell does not end at what fails before an `&&`.
if [ -n "$now" ]; then
    ln -sfn "$now" .previous.new
    mv -T .previous.new previous
fi
ln -sfn "$wanted" .current.new
mv -T .current.new current
echo "current: $wanted${now:+ (before: $now)}"
