#!/usr/bin/env bash
# Generates the Python of every .proto beside this script into a folder: generate.sh PYTHON FOLDER
# PYTHON has requirements/proto.txt installed. `make proto` calls this for proto/gen, `make proto-check`
# for a scratch folder that it compares with proto/gen.
set -euo pipefail

python=$1
out=$2
cd "$(dirname "$0")"

mapfile -t protos < <(find kvquarry -name '*.proto' | sort)
"$python" -m grpc_tools.protoc -I . \
  --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" "${protos[@]}"

# Regular packages, and typed ones: import-linter and mypy look for both.
find "$out/kvquarry" -type d -exec touch {}/__init__.py \;
touch "$out/kvquarry/py.typed"
