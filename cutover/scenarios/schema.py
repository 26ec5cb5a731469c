"""Print the schema of scenario files: `python -m cutover.scenarios.schema > docs/scenarios/scenario.schema.json`."""

import json
import sys

from cutover.scenarios.file_form import published_schema

if __name__ == "__main__":
    sys.stdout.write(json.dumps(published_schema(), indent=1, ensure_ascii=False) + "\n")
