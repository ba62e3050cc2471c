"""Reads Python that does not parse: Python 2, a template, a merge conflict. Strings and comments are told from code by a scan;
names are resolved through the file's imports, without scopes. No patches: what does not parse cannot be checked.
"""

import re

from trine.decide.audit.rule import Finding
from trine.decide.audit.rules import TABLES

TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<string>[rRbBuUfF]{0,2}(?:\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?:\\.|[^\\])*?(?:'''|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<name>[A-Za-z_]\w*(?:[ \t]*\.[ \t]*[A-Za-z_]\w*)*)""",
    re.S,
)
IMPORT = re.compile(r"^[ \t]*(?:import[ \t]+(?P<plain>[\w. \t,]+)|from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]+\(?(?P<names>[\w. \t,*]+))", re.M)


def findings(text, file, own=()):
    lines, meanings = text.split("\n"), _imports(text)
    found, line, at = {}, 1, 0

    def add(rule, line, column):
        if rule is not None and (line, rule.kind) not in found:
            shown = lines[line - 1].strip()[:200] if line <= len(lines) else ""
            found[line, rule.kind] = Finding(file, line, column, rule, shown)

    for token in TOKEN.finditer(text):
        line, at = line + text.count("\n", at, token.start()), token.start()
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        if token["string"] and "\n" not in token["string"]:
            add(TABLES.by_string(re.sub(r"""^\w*('''|\"\"\"|'|")|('''|\"\"\"|'|")$""", "", token["string"])), line, column)
        elif token["name"]:
            _name(re.sub(r"\s", "", token["name"]), text[token.end() : token.end() + 1], meanings, own, lambda rule: add(rule, line, column))
    return sorted(found.values(), key=lambda f: (f.line, f.column))


def _name(name, following, meanings, own, add):
    head, _, rest = name.partition(".")
    for meaning in meanings.get(head, ()):
        if not meaning.startswith(".") and meaning.partition(".")[0] not in own:
            add(TABLES.by_name(meaning + (f".{rest}" if rest else "")))
    for part in name.split(".")[1:]:
        rule, is_called = TABLES.methods.get(part, (None, False))
        if rule is not None and (not is_called or (name.endswith(f".{part}") and following == "(")) and f".{part}" not in str(meanings.get(head, "")):
            add(rule)


def _imports(text):
    out = {}
    for found in IMPORT.finditer(text):
        for part in (found["plain"] or found["names"]).split(","):
            name, _, alias = part.strip().partition(" as ")
            name, alias = name.strip(), alias.strip()
            if not name or " " in name or name == "*":
                continue
            if found["plain"]:
                out.setdefault(alias or name.partition(".")[0], []).append(name if alias else name.partition(".")[0])
            else:
                out.setdefault(alias or name, []).append(f"{found['module']}.{name}")
    return out
