#!/bin/bash
# A Slurm job with a worker on each of its nodes, and a program on the first one.  Change the numbers
# of nodes and cores, the memory and the time, then, in the project's folder, which all nodes share:
#   sbatch docs/workers/slurm.sh experiments.three_phase_emnist --dataset=digits --output_dir=out
# docs/install.md, "Without Bazel", says how to make `env`.
#SBATCH --job-name=clustering
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --exclusive
#SBATCH --time=04:00:00
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
python=${PYTHON_BIN:-env/bin/python}
# Worker i listens at this port plus i.
first_port=${FIRST_PORT:-8000}

# mktemp makes it for this user alone, as it must be.
token=$(mktemp "$PWD/.token.XXXXXX")
trap 'rm -f "$token"' EXIT
"$python" -c "import secrets; print(secrets.token_hex(32))" > "$token"

# shellcheck disable=SC2016
srun --ntasks="$SLURM_NNODES" --cpus-per-task="$SLURM_CPUS_PER_TASK" bash -c '
  exec "$1" -m tools.worker --address=0.0.0.0 --port=$(($2 + SLURM_PROCID)) --token_file="$3" \
    --num_cores="$SLURM_CPUS_PER_TASK" --cache_dir="${TMPDIR:-/tmp}/clustering-$SLURM_JOB_ID-$SLURM_PROCID"
' worker "$python" "$first_port" "$token" &
workers=$!
trap 'kill "$workers" 2> /dev/null || true; wait "$workers" || true; rm -f "$token"' EXIT

addresses=()
for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  port=$((first_port + ${#addresses[@]}))
  # A worker needs seconds to start.  Without it, the job ends.
  until (: > "/dev/tcp/$host/$port") 2> /dev/null; do
    kill -0 "$workers"
    sleep 1
  done
  addresses+=("$host:$port")
done

"$python" -m "$@" --workers="$(IFS=,; echo "${addresses[*]}")" --token_file="$token"
