"""Is deploy/compose.yaml what the deployment needs?

Parses it when PyYAML is there. What matters for safety is also checked on the text alone, so that
a machine without PyYAML checks it too.
"""

import json
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).parent
SERVICES = {"credentials", "rabbitmq", "redis", "scheduler", "worker"}
LIVING = SERVICES - {"credentials"}


def text_problems(text: str) -> list[str]:
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"compose.yaml:{number}"
        image = re.match(r"\s*image:\s*(\S+)", line)
        if image and (":" not in image[1] or image[1].endswith(":latest")):
            problems.append(f"{where}: pin {image[1]} to a version")
        if re.search(r"(password|secret|_url)\w*:\s*\S*://\S+:\S+@", line, re.IGNORECASE):
            problems.append(f"{where}: a password in the file; use a secret")
        if "\t" in line:
            problems.append(f"{where}: a tab; indent with spaces")
        if re.search(r"privileged:\s*true|docker\.sock|cap_add", line):
            problems.append(f"{where}: a privilege; nothing here needs one")
        port = re.search(r'ports:\s*\["([^"]+)"', line)
        if port and not port[1].startswith("127.0.0.1:"):
            problems.append(f"{where}: port {port[1]} is open to the network; bind 127.0.0.1")
    return problems


def structure_problems(compose: dict) -> list[str]:
    services = compose["services"]
    if set(services) != SERVICES:
        return [f"compose.yaml: services {sorted(services)}, not {sorted(SERVICES)}"]
    problems = [
        f"compose.yaml: {name} has no health check"
        for name in sorted(LIVING)
        if "healthcheck" not in services[name]
    ]
    for name in ("scheduler", "worker"):
        service = services[name]
        for key, wanted in (("read_only", True), ("cap_drop", ["ALL"])):
            if service.get(key) != wanted:
                problems.append(f"compose.yaml: {name}: {key} must be {wanted}")
        for secret in service["secrets"]:
            if secret not in compose["secrets"]:
                problems.append(f"compose.yaml: {name}: secret {secret} is not defined")
    for name, service in services.items():
        for volume in service.get("volumes", []):
            problems += volume_problems(name, volume.split(":")[0], compose["volumes"])
    return problems


def volume_problems(name: str, source: str, volumes: dict) -> list[str]:
    made_by_user = {"./secrets", "./config"}
    if source.startswith("./"):
        if source in made_by_user or (FOLDER / source).exists():
            return []
        return [f"compose.yaml: {name}: there is no {source}"]
    return [] if source in volumes else [f"compose.yaml: {name}: no volume {source}"]


def definition_problems() -> list[str]:
    definitions = json.loads((FOLDER / "rabbitmq/definitions.json").read_text())
    return [
        f"definitions.json: user {user['name']} is shipped with a password; leave the hash empty"
        for user in definitions["users"]
        if user["password_hash"] != ""
    ]


def main() -> int:
    text = (FOLDER / "compose.yaml").read_text()
    problems = text_problems(text) + definition_problems()
    try:
        import yaml
    except ImportError:
        print("compose.yaml: checked as text only; PyYAML is not installed")
    else:
        problems += structure_problems(yaml.safe_load(text))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
