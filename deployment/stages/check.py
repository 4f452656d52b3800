"""What would stand in the way, before anything is made."""

from __future__ import annotations

from dataclasses import dataclass

from deployment.preflight import Status, checks
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way


@dataclass(frozen=True)
class Check:
    """The preflight. It says only what is not as it should be."""

    way: Way
    name = "preflight"
    costs = False

    def there(self) -> str | None:
        """Never: it takes seconds, and what it looks at changes."""
        return None

    def perform(self, shown: Shown) -> str:
        """Raises StageFailed where a check refuses."""
        findings = checks(self.way.place)
        odd = [finding for finding in findings if finding.status is not Status.OK]
        for finding in odd:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            shown.say(f"{finding.status}: {finding.subject}: {finding.found}{remedy}")
        refused = sum(finding.status is Status.REFUSED for finding in odd)
        if refused:
            raise StageFailed(
                f"{refused} of {len(findings)} checks refuse; make preflight lists all"
            )
        return f"{len(findings)} checks"
