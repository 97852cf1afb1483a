#!/bin/sh
# A provider that is none, and the governor before it: what a refusal looks like from
# both sides. Needs `rategov` and `curl`; everything it makes is in a temporary folder.
#
#   sh examples/fake-provider.sh
#
# RATEGOV names another binary; PORT is the first of four ports in a row (default 9100).
set -eu

rategov=${RATEGOV:-rategov}
port=${PORT:-9100}
provider=127.0.0.1:$port
control=127.0.0.1:$((port + 1))
agents=127.0.0.1:$((port + 2))
operators=127.0.0.1:$((port + 3))
folder=$(mktemp -d)
started=""
trap 'kill $started 2>/dev/null || true; wait; rm -rf "$folder"' EXIT

reachable() {
    n=0
    until curl -s -o "$folder/answer" "http://$1"; do
        n=$((n + 1))
        [ "$n" -lt 100 ] || { echo "nobody answers at $1" >&2; exit 1; }
        sleep 0.1
    done
}

# An API of 10 calls in 5 seconds, with a door beside it for scripts and its own count.
"$rategov" fake-provider --listen "$provider" --control "$control" --quota sliding:10/5s &
started="$started $!"
reachable "$control/__control/ledger"

# The governor before it. No accounts: callers bring their own keys.
cat > "$folder/rategov.yaml" <<YAML
providers:
  fake: { base_url: "http://$provider" }
YAML
"$rategov" policy check "$folder/rategov.yaml"
"$rategov" --data "$folder/data" serve --config "$folder/rategov.yaml" \
    --agents "$agents" --operators-listen "$operators" 2> "$folder/log" &
started="$started $!"
reachable "$operators/healthz"

call() {
    curl -s -o "$folder/answer" -D - -H 'authorization: Bearer of-nobody' \
        -H 'content-type: application/json' "http://$agents/fake/v1/embeddings" \
        -d '{"model": "m", "input": "hello"}' |
        tr -d '\r' | grep -i -E '^(HTTP|rategov-(source|attempts|waited-ms|next))'
}

echo "--- an ordinary call"
call

echo "--- the provider refuses the next one, and says to come back in a second"
curl -s "http://$control/__control/script" \
    -d '{"steps": [{"calls": "POST *", "status": 429, "headers": {"retry-after": "1"}}]}'
echo
call

echo "--- what the provider itself counted"
curl -s "http://$control/__control/ledger" | head -c 600
echo
