#!/bin/sh
# Prints this machine's GPUs as Spark wants to read them: {"name": "gpu", "addresses": ["0", "1"]}.
#
# Started by an executor that sets SPARKWRIGHT_GPUS_PER_EXECUTOR, it claims so many that no other
# living executor of this machine has claimed: YARN without isolation shows each executor all of them.
# SPARKWRIGHT_FAKE_GPUS="0 1" stands in for nvidia-smi in tests.
set -eu

fail() {
    echo "discover_gpus.sh: $1" >&2
    exit 1
}

if [ -n "${SPARKWRIGHT_FAKE_GPUS:-}" ]; then
    gpus=$(for address in $SPARKWRIGHT_FAKE_GPUS; do echo "$address fake-$address"; done)
else
    command -v nvidia-smi >/dev/null || fail "nvidia-smi is not on the PATH; is the driver installed?"
    listed=$(nvidia-smi --query-gpu=index,uuid --format=csv,noheader 2>&1) || fail "nvidia-smi: $listed"
    gpus=$(echo "$listed" | tr -d ',')
fi

# $1: process; it and when it began, so that a number that is used again is another process.
life() {
    [ -r "/proc/$1/stat" ] && echo "$1 $(sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20)"
}

claimed() {
    wanted=$SPARKWRIGHT_GPUS_PER_EXECUTOR
    folder="/tmp/sparkwright-gpus-$(id -u)"
    mkdir -m 700 "$folder" 2>/dev/null || [ -O "$folder" ] || fail "$folder belongs to another user"
    command -v flock >/dev/null || fail "flock is not on the PATH; install util-linux"
    exec 9>"$folder/lock"
    flock -w 60 9 || fail "waited 60 s for another executor to choose its GPUs"
    mine=$(life "$PPID")
    found=""
    count=0
    # Told by identity: in two isolated containers the number 0 may be two GPUs.
    while read -r address identity; do
        [ "$count" -lt "$wanted" ] || break
        holder=$(cat "$folder/$identity" 2>/dev/null || true)
        if [ -n "$holder" ] && [ "$holder" != "$mine" ] && [ "$(life "${holder% *}" || true)" = "$holder" ]; then
            continue
        fi
        echo "$mine" >"$folder/$identity"
        found="$found $address"
        count=$((count + 1))
    done <<END
$gpus
END
    [ "$count" -eq "$wanted" ] ||
        fail "an executor needs $wanted GPUs, $count are free of $(echo "$gpus" | wc -l) on $(hostname)"
    echo "$found"
}

if [ -n "${SPARKWRIGHT_GPUS_PER_EXECUTOR:-}" ]; then
    addresses=$(claimed)
else
    addresses=$(echo "$gpus" | cut -d ' ' -f 1)
fi

list=""
for address in $addresses; do
    list="$list${list:+, }\"$address\""
done
echo "{\"name\": \"gpu\", \"addresses\": [$list]}"
