#!/bin/sh
# Prints the path of a Python 3.11 of this project's own, and installs it the first time.
#
# It takes a python3 of any version with the venv module.  pip gets uv, uv downloads the
# Python, and the Python stays in the user's cache folder.  The settings of pip and uv
# apply, such as UV_PYTHON_INSTALL_MIRROR.
set -eu
root=$(dirname "$0")/..
cache=${XDG_CACHE_HOME:-$HOME/.cache}/federated_clustering
log=$cache/own_python.log

print_installed() {
  for python in "$cache"/python/cpython-3.11.*/bin/python3.11; do
    if "$python" -c "import ensurepip, venv" 2> /dev/null; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

install_python() {
  python3 -m venv "$env" &&
    "$env/bin/pip" --disable-pip-version-check install --no-deps --require-hashes \
      -r "$root/requirements-uv.txt" &&
    UV_PYTHON_INSTALL_DIR=$cache/python "$env/bin/uv" --no-cache python install \
      --no-bin --managed-python 3.11 &&
    print_installed
}

if print_installed; then
  exit
fi
echo "own_python.sh: no Python 3.11 or 3.10 here, installing one in $cache/python" >&2
mkdir -p "$cache"
env=$(mktemp -d "$cache/uv.XXXXXX")
trap 'rm -rf "$env"' EXIT
trap 'exit 130' INT TERM
if ! install_python > "$log" 2>&1; then
  echo "own_python.sh: that failed, see $log; install Python 3.11 or 3.10 with venv, or name it" \
    "with PYTHON_BIN=/path/to/python3.11" >&2
  exit 1
fi
print_installed
