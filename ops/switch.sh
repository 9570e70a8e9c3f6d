#!/bin/sh
# Upgrade and roll-back of an installation: PREFIX/VERSION holds a version each, PREFIX/current names the one in use.
#   ops/switch.sh PREFIX VERSION   checks VERSION with its own `steadyhand doctor`, then makes it the current one
#   ops/switch.sh PREFIX --back    makes the version before it the current one again
# Refused unless every guard that runs on this machine is stopped and at rest. Nothing that runs is touched: it goes on
# with its own version until it is restarted, which the last line says how to do.
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
case $wanted in
    */* | .* | -* | current | previous) echo "version '$wanted': give the name of a folder in $1" >&2; exit 2 ;;
esac
[ -x "$wanted/.venv/bin/steadyhand" ] || { echo "$1/$wanted: no .venv/bin/steadyhand; install it first" >&2; exit 1; }
[ "$wanted" != "$now" ] || { echo "$wanted is the current version already"; exit 0; }

# One switch at a time.
exec 9> .switch.lock
flock -n 9 || { echo "$1: another switch is under way" >&2; exit 1; }

# Every guard holds guard.lock in its folder of sockets while it runs.
refuse() { echo "$1; ${now:-nothing} stays current" >&2; exit 1; }
check_guard() {  # lock file
    flock --shared --nonblock "$1" true 2> /dev/null && return 0  # nobody holds it
    folder=${1%/guard.lock} agv=
    case $folder in */agv) folder=${folder%/agv} agv=--agv ;; esac
    state=$(XDG_RUNTIME_DIR=${folder%/slot*} STEADYHAND_SLOT=${folder##*/slot} \
        "${now:-$wanted}/.venv/bin/steadyhand" status $agv --json 2> /dev/null) ||
        refuse "a guard runs at $folder and does not answer: end it, or switch as root"
    mode=$(printf '%s\n' "$state" | sed -n 's/^  "mode": "\(.*\)",*$/\1/p')
    case $mode in
        STOPPED) ;;
        *) refuse "the guard at $folder says ${mode:-nothing}: steadyhand stop, look, then switch" ;;
    esac
    printf '%s\n' "$state" | grep -q '^  "at_rest": true,*$' ||  # the guard's own, not one that a vehicle reports
        refuse "the guard at $folder measures no rest: end it (systemctl stop)"
}
# STEADYHAND_RUNTIME: where the folders XDG_RUNTIME_DIR of guards are, as patterns.
for base in ${STEADYHAND_RUNTIME:-/run/steadyhand-* /run/user/* /tmp/steadyhand-*}; do
    [ ! -d "$base" ] || [ -x "$base" ] || refuse "$base is not readable, a guard may run there: switch as root"
    for lock in "$base"/slot*/guard.lock "$base"/slot*/agv/guard.lock; do
        [ ! -e "$lock" ] || check_guard "$lock"
    done
done

# In a slot that no robot uses: the doctor also asks whether ports are free, and the version before may be running.
if ! STEADYHAND_SLOT=40 "$wanted/.venv/bin/steadyhand" doctor --hardware; then
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
echo "in force after: systemctl restart 'steadyhand@*.target'"
