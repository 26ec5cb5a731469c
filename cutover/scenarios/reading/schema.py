"""Print the schema of scenario files, as docs/scenarios/scenario.schema.json holds it."""

import json
import sys

from cutover.scenarios.reading.forms import make_json_schema

if __name__ == "__main__":
    sys.stdout.write(json.dumps(make_json_schema(), indent=1, ensure_ascii=False) + "\n")
