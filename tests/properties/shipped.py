"""The numbers of the shipped files, and copies of these files with one number changed."""

import re

from program import FILES, SHIPPED, put

QUANTITY = re.compile(r"^([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)(?:\s+(.*))?$")


def names(kind):
    return sorted(file.stem for file in (SHIPPED / kind).glob("*.yaml"))


def numbers(kind, name):
    """key -> value as written, of a calibration or framework file and its base: lines `key: {value: X, ... source: ...}`."""
    text = (SHIPPED / kind / f"{name}.yaml").read_text(encoding="utf-8")
    base = re.search(r"^base: (\S+)$", text, re.M)
    own = dict(re.findall(r"^(\w+): \{value: ([^,}]+)", text, re.M))
    return {**numbers(kind, base[1]), **own} if base else own


def edited(kind, name, key, value):
    """The file's text with one value replaced or added."""
    text = (SHIPPED / kind / f"{name}.yaml").read_text(encoding="utf-8")
    line = f'{key}: {{value: {value}, source: "changed by a test"}}'
    changed, found = re.subn(rf"^{key}: \{{.*\}}$", line, text, flags=re.M)
    return changed if found else text + line + "\n"


def scaled(value, factor):
    """A number with or without a unit, times a factor; None when it is none."""
    match = QUANTITY.match(value.strip())
    if not match:
        return None
    number = float(match.group(1)) * factor
    unit = match.group(2) or ""
    if not unit and "." not in match.group(1) and number == int(number):
        number = int(number)
    text = f"{number:.15g}"
    return f"{text} {unit}" if unit else number


def with_calibration(scenario, name, key, value):
    """The scenario with a copy of a shipped calibration in which one number differs."""
    file = f"{name}-{key}.yaml"
    scenario = put(scenario, "cluster.device.calibration", file)
    return with_file(scenario, file, edited("calibrations", name, key, value))


def with_framework(scenario, name, key, value):
    file = f"{name}-{key}.yaml"
    return with_file({**scenario, "framework": file}, file, edited("frameworks", name, key, value))


def with_file(scenario, file, text):
    return {**scenario, FILES: {**scenario.get(FILES, {}), file: text}}
