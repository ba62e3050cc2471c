"""Prints docs/audit_rules.md: every rule of the audit. `python -m trine.decide.audit.rules_page`."""

from trine.decide.audit import report
from trine.decide.audit.rule import EFFORTS
from trine.decide.audit.rules import RULES

HEAD = """# Rules of the audit

Written by `python/trine/decide/audit/rules_page.py` from the rows in `python/trine/decide/audit/rules/`. Hours are for each place, file
or project, as the row says; a row with a patch needs none where `--fix` writes it. [The audit](audit.md) says how they are used.
"""


def cell(text):
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def main():
    print(HEAD)
    for effort, title in EFFORTS.items():
        rows = [r for r in RULES if r.effort == effort]
        print(f"## {title[0].upper()}{title[1:]}\n\n| kind | what | it is for | on Trainium | hours | hours from | patch |\n|---|---|---|---|---|---|---|")
        for r in rows:
            hours = "–" if r.hours == (0, 0) else f"{report.number(r.hours[0])}–{report.number(r.hours[1])} a {r.per}"
            print(f"| {r.kind} | {cell(r.what)} | {cell(r.purpose)} | {cell(r.instead)} | {hours} | {cell(r.basis)} | {'yes' if r.fix else ''} |")
        print()


if __name__ == "__main__":
    main()
