#!/bin/sh
# supervise.sh SIGNAL FOLDER COMMAND...
#
# Runs COMMAND until it ends or until standard input does, which the starting process holds open: however that process
# dies, the command is sent SIGNAL (then KILL) and FOLDER, its throw-away data, is removed, as is every path that the file
# FOLDER/leftovers lists. Ends with the command's status.
signal=$1
folder=$2
shift 2

exec 3<&0
"$@" </dev/null 3<&- &
command=$!

# Background jobs of a shell ignore SIGINT: an interrupt at the keyboard ends the parent, and through it this.
(
    while read -r _; do :; done
    kill -s "$signal" "$command" 2>/dev/null
    tries=50
    while [ "$tries" -gt 0 ] && kill -0 "$command" 2>/dev/null; do
        sleep 0.1
        tries=$((tries - 1))
    done
    kill -s KILL "$command" 2>/dev/null
) <&3 &
watcher=$!
exec 3<&-

trap '' INT TERM HUP
wait "$command"
status=$?
kill -s KILL "$watcher" 2>/dev/null
if [ -f "$folder/leftovers" ]; then
    while read -r path; do rm -f -- "$path"; done <"$folder/leftovers"
fi
rm -rf -- "$folder"
exit "$status"
