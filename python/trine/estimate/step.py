"""The answer to `--phase train`: as any other, with times from the simulation of the step over all its ranks."""

import dataclasses

from trine.estimate.answer import Answer


@dataclasses.dataclass
class Step(Answer):
    """step: stages.Spread. What the longest stage does and waits for adds up to the step."""

    step: object = None
    search: dict | None = None  # other layouts, and why they lost; see search.py

    @property
    def device_ms(self):
        """Our programs on the engines of a core of the longest stage, and what that waits for others."""
        p = self.step.ours.parts()
        return p["compute"] + p["slowed"] + p["bubbles"]

    @property
    def late_ms(self):
        """Of it, the waiting."""
        return self.step.ours.parts()["bubbles"]

    @property
    def launch_ms(self):
        """Starting programs on that stage."""
        return self.step.ours.parts()["launch"]

    @property
    def collectives_ms(self):
        """Exchange between cores that nothing hides."""
        return self.step.ours.parts()["collectives"]

    @property
    def neuron_ms(self):
        """As device_ms, with programs as Neuron's are likely to be."""
        p = self.step.likely.parts()
        return p["compute"] + p["slowed"] + p["bubbles"]

    @property
    def on_device_ms(self):
        """As a device profile shows it."""
        return self.neuron_ms * self.factor + self.step.likely.parts()["collectives"]

    @property
    def rest_ms(self):
        """Collectives and launches of the likely step: what no factor is applied to."""
        p = self.step.likely.parts()
        return p["collectives"] + p["launch"]

    @property
    def mfu(self):
        """Percent of the peak FLOP rate, of all stages' cores; operations are counted by the time they take of a program's."""
        return super().mfu * self.step.more_work

    @property
    def mbu(self):
        """Likewise of the memory's rate."""
        return super().mbu * self.step.more_work

    def layers(self):
        """Of our programs in the longest stage, and of what its engines waited for; they add up to device and collectives."""
        rows = self.computed()
        ours = self.step.ours.parts()
        for part, ms in (("bubble", ours["bubbles"]), ("slowed by collectives", ours["slowed"])):
            if ms:
                rows.append({"layer": "pipeline" if part == "bubble" else "collectives", "part": part, "ms": ms, "bound": "none", "busy_ms": {}})
        for what, ms in self.step.ours.exposed().items():
            rows.append({"layer": "collectives", "part": what, "ms": ms, "bound": "link", "busy_ms": {}})
        return rows

    def computed(self):
        """Rows of all programs, scaled to what the longest stage computes."""
        rows = []
        for run, count in self.runs:
            rows += [r | {"ms": r["ms"] * count, "busy_ms": {unit: ms * count for unit, ms in r["busy_ms"].items()}} for r in run.layers]
        scale = self.step.ours.parts()["compute"] / max(1e-12, sum(r["ms"] for r in rows))
        return [r | {"ms": r["ms"] * scale} for r in rows]

    def as_dict(self):
        """As Answer's, with the step's parts by stage, of our programs and of likely ones."""
        out = super().as_dict() | {"step": {"ours": self.step.ours.as_dict(), "likely": self.step.likely.as_dict()}}
        return out | ({"search": self.search} if self.search else {})
