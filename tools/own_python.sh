#!/bin/sh
# Prints the path of a Python 3.11 of this project's own, and installs it the first time.
#
# It takes a python3 of any version with the venv module.  pip gets uv, and uv downloads the
# Python from GitHub.  Where that fails, on Debian, apt gets Debian 12's Python from Debian's
# archive and checks its signature; nothing of the system changes.  Either stays in the user's
# cache folder.
# The settings of pip, uv and apt apply, such as UV_PYTHON_INSTALL_MIRROR.
set -eu
root=$(dirname "$0")/..
cache=${XDG_CACHE_HOME:-$HOME/.cache}/federated_clustering
debian=$cache/python/debian-12
log=$cache/own_python.log

fail() {
  echo "own_python.sh: $1; install Python 3.11 or 3.10 with venv, or name it" \
    "with PYTHON_BIN=/path/to/python3.11" >&2
  exit 1
}

print_installed() {
  for python in "$cache"/python/cpython-3.11.*/bin/python3.11 "$debian/usr/bin/python3.11"; do
    if "$python" -c "import ensurepip, venv" 2> /dev/null; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

install_by_uv() {
  python3 "$root/tools/locked_env.py" "$work/env" "$root/requirements/uv.txt" &&
    UV_PYTHON_INSTALL_DIR=$cache/python "$work/env/bin/uv" --no-cache python install \
      --no-bin --managed-python 3.11 &&
    print_installed
}

# apt with sources, lists and state of its own, in the folder $work/apt.
private_apt() {
  apt-get -c "$work/apt/apt.conf" -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State="$work/apt" -o Dir::State::status=/dev/null -o Dir::Cache="$work/apt" \
    -o APT::Sandbox::User=root "$@"
}

install_from_debian() {
  # The mirror that this machine uses, if it is a Debian that has used one.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' |
    head -n 1)
  mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/tree" &&
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
      "${mirror:-http://deb.debian.org/debian} bookworm main" > "$work/apt/sources.list" &&
    printf '#clear APT::Update::Post-Invoke%s;\n' "" -Success > "$work/apt/apt.conf" &&
    private_apt update &&
    (cd "$work/apt" && private_apt download \
      libpython3.11-minimal libpython3.11-stdlib python3.11-minimal python3.11-venv) || return 1
  for package in "$work"/apt/*.deb; do
    dpkg-deb --extract "$package" "$work/tree" || return 1
  done
  "$work/tree/usr/bin/python3.11" -m venv "$work/tried" &&
    mkdir -p "$cache/python" && rm -rf "$debian" && mv "$work/tree" "$debian" && print_installed
}

if print_installed; then
  exit
fi
echo "own_python.sh: no Python 3.11 or 3.10 here, installing one in $cache/python" >&2
{ mkdir -p "$cache" && true > "$log" && work=$(mktemp -d "$cache/own.XXXXXX"); } 2> /dev/null ||
  fail "can't write in $cache"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
{ install_by_uv || install_from_debian; } >> "$log" 2>&1 || fail "that failed, see $log"
print_installed
