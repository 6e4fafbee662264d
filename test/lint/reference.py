#!/usr/bin/python3
"""config/reference.md and config/schema.json are what `weir schema` writes, and every sample is valid by the schema.

    test/lint/reference.py WEIR            check
    test/lint/reference.py WEIR --write    write both anew
"""

import json
import pathlib
import re
import subprocess
import sys

import jsonschema
import yaml

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "config"
DOCUMENTS = {"reference.md": ["schema"], "schema.json": ["schema", "--json"]}


class Loader(yaml.SafeLoader):
    """YAML 1.2, as libyaml's users and editors read it: on, off, yes and no are words."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":bool")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def problems(weir):
    for name, arguments in DOCUMENTS.items():
        said = subprocess.run([weir, *arguments], check=True, capture_output=True, text=True).stdout
        path = CONFIG / name
        if "--write" in sys.argv:
            path.write_text(said)
        elif not path.exists() or path.read_text() != said:
            yield f"config/{name}:1: not what `weir {' '.join(arguments)}` writes: test/lint/reference.py WEIR --write"
    schema = json.loads((CONFIG / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for sample in sorted(CONFIG.glob("*.yaml")):
        for error in validator.iter_errors(yaml.load(sample.read_text(), Loader)):
            yield f"config/{sample.name}:1: {'.'.join(map(str, error.path))}: {error.message}"


if __name__ == "__main__":
    found = list(problems(sys.argv[1]))
    print("\n".join(found) or "clean")
    sys.exit(1 if found else 0)
