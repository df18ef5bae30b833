#!/bin/sh
# Prints this machine's GPUs in Spark's format: {"name": "gpu", "addresses": ["0", "1"]}.
#
# If an executor sets SPARKWRIGHT_GPUS_PER_EXECUTOR, claims that many GPUs that no other running
# executor on this machine has claimed. YARN without isolation shows all GPUs to each executor.
# SPARKWRIGHT_FAKE_GPUS="0 1" replaces nvidia-smi in tests.
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

# Prints process id $1 and its start time, which identify a process even if the id is reused.
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
    # Claims use the UUID, because number 0 may be different GPUs in two isolated containers.
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
