#!/usr/bin/env bash
# Install the S3-compatible server of these tests, from its hashed lock, into an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=.venv/share/cutover/s3-server
[ -x "$place/bin/moto_server" ] && exit 0
.venv/bin/uv venv --quiet "$place"
.venv/bin/uv pip install --quiet --python "$place/bin/python" --require-hashes -r tests/object_store/requirements.txt
