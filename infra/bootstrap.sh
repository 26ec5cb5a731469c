#!/usr/bin/env bash
# Create `.venv` from the hashed lock and fetch the JARs. Idempotent; a second run changes nothing and needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

say() { printf '==> %s\n' "$*"; }
fail() { printf 'cutover: %s\n' "$*" >&2; exit 2; }
debian_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_install() { # the first of the given packages that this Debian has
    say "installing $1 (apt-get)"
    apt-get -qq update || true
    for package in "$@"; do
        DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$package" >/dev/null && return
    done
    return 1
}

java_major() { # 17 from `openjdk version "17.0.15"`; nothing when there is no Java that runs
    { java -version 2>&1 || true; } | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}
java_ok() { local major; major=$(java_major); [ "${major:-0}" -ge 17 ]; }
java_ok || { debian_root && apt_install openjdk-17-jre-headless default-jre-headless; } || true
java_ok || fail "Java 17 or newer is needed, found: $(java_major | grep . || echo none).
Hint: apt install openjdk-17-jre-headless | dnf install java-17-openjdk-headless | brew install openjdk@17"

# The report is tested in a real browser; without one, these tests are skipped with the reason.
if [ "${CI:-}" = true ] && ! command -v chromium chromium-browser >/dev/null; then
    { debian_root && apt_install chromium chromium-browser; } || true
fi
# Alert rules are tested with promtool and Alertmanager; without them, these tests are skipped with the reason.
if [ "${CI:-}" = true ]; then
    for package in prometheus prometheus-alertmanager; do
        command -v "$package" >/dev/null || { debian_root && apt_install "$package"; } || true
    done
    # The copy of serving tables is tested on a server of a test's own.
    compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null ||
        { debian_root && apt_install postgresql; } || true
fi

command -v "$python" >/dev/null || fail "python3 (3.11 or newer) is needed.
Hint: apt install python3 python3-venv | dnf install python3.11 | brew install python@3.11"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed, found: $("$python" -V).
Hint: PYTHON=/path/to/python3.11 make setup"

inputs=(infra/requirements.txt infra/install/*.sha256 infra/install/*-ivy.xml infra/bootstrap.sh pyproject.toml)
stamp="$(pwd) $(cat "${inputs[@]}" | "$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')"
[ "$(cat .venv/.cutover-stamp 2>/dev/null || true)" = "$stamp" ] && [ -x .venv/bin/cutover ] && exit 0

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null || { debian_root && apt_install python3-venv; } ||
        fail "Python's venv module is needed.
Hint: apt install python3-venv | dnf and brew have it in python3 itself"
    say "making .venv with $("$python" -V)"
    "$python" -m venv --clear .venv
fi
rm -f .venv/.cutover-stamp

say "installing uv and the build tools from the lock"
tools=.venv/tools.txt
awk '/^(uv|setuptools|wheel|packaging)==/ {take = 1; print; next} take && /^    / {print; next} {take = 0}' infra/requirements.txt >"$tools"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$tools"

say "installing the packages of infra/requirements.txt (about 1 GB on disk; a few minutes the first time)"
# Compile now: where Python must not write byte code (as in many containers), every command would compile again.
.venv/bin/uv pip install --python .venv/bin/python --compile-bytecode --no-build-isolation --require-hashes -r infra/requirements.txt
.venv/bin/uv pip install --python .venv/bin/python --quiet --no-deps --no-build-isolation -e .
.venv/bin/python -m compileall -q cutover streaming batch reconcile infra samples  # it follows no link

say "checking the JARs"
.venv/bin/python -m cutover.infra.install.jars
say "archiving the JVM's classes, so that Spark starts faster (about half a minute)"
.venv/bin/python -m cutover.infra.install.class_archive
printf '%s\n' "$stamp" >.venv/.cutover-stamp
say "ready: .venv/bin/cutover"
