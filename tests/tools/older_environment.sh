#!/usr/bin/env bash
# Make a second training environment, with the releases in which the rules of the older guides hold:
#   tests/tools/older_environment.sh DIR
# Then `kerneltui --python DIR …` asks it, and `python -m tests.tools.record_answers DIR` records what it says.
set -euo pipefail
directory=${1:?where to make it}
python3 -m venv "$directory"
# The CPU build first: a plain `torch` would bring several gigabytes of CUDA.
"$directory/bin/pip" install --quiet torch==2.13.0
# trl 1.10.0 imports requests, which it does not name and huggingface_hub 2 no longer brings.
"$directory/bin/pip" install --quiet 'trl[kernels,liger,peft]==1.10.0' 'transformers[kernels]==5.14.1' requests
