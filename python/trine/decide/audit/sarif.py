"""An audit as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from urllib.parse import quote

from trine.decide.audit.rules import BY_KIND


def sarif(audit):
    kinds = sorted({f.kind for f in audit.findings})
    rules = [{
        "id": k, "name": k, "shortDescription": {"text": BY_KIND[k].what}, "fullDescription": {"text": f"{BY_KIND[k].purpose}. Instead: {BY_KIND[k].instead}"},
        "defaultConfiguration": {"level": BY_KIND[k].severity}, "properties": {"effort": BY_KIND[k].effort, "hours": list(BY_KIND[k].hours), "basis": BY_KIND[k].basis},
    } for k in kinds]  # fmt: skip
    results = [{
        "ruleId": f.kind, "ruleIndex": kinds.index(f.kind), "level": f.severity, "message": {"text": f"{f.rule.what}: {f.rule.instead}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(f.file), "uriBaseId": "ROOT"}, "region": {"startLine": f.line, "startColumn": f.column}}}],
        "properties": {"effort_h": list(f.effort_h), "guarded": f.guarded, "part": f.part},
    } for f in audit.findings]  # fmt: skip
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "trine audit", "rules": rules}}, "columnKind": "utf16CodeUnits",
                  "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [
                      {"level": "note", "message": {"text": f"{n}: {why}"}} for n, why in audit.skipped]}], "results": results}],
    }  # fmt: skip
