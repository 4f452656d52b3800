"""What would stand in the way, before anything is made."""

from __future__ import annotations

from dataclasses import dataclass

from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.preflight import Status, checks, names
from deployment.stages.shown import Shown
from deployment.stages.stage import Way


@dataclass(frozen=True)
class Check:
    """The preflight, once no deploy goes on. It says only what is not as it should be."""

    way: Way
    name = "preflight"
    costs = False

    def there(self) -> str | None:
        """Never: it takes seconds, and what it looks at changes."""
        return None

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError, also where a check refuses."""
        shown.until(lambda: self._at_rest(shown))
        findings = checks(self.way.place)
        odd = [finding for finding in findings if finding.status is not Status.OK]
        for finding in odd:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            shown.say(f"{finding.status}: {finding.subject}: {finding.found}{remedy}")
        refused = sum(finding.status is Status.REFUSED for finding in odd)
        if refused:
            raise DeploymentError(
                f"{refused} of {len(findings)} checks refuse; make preflight lists all"
            )
        return f"{len(findings)} checks"

    def _at_rest(self, shown: Shown) -> bool | None:
        """CloudFormation goes on with a deploy that was ended, and refuses another meanwhile."""
        with in_words():
            changing = names.changing(self.way.place)
        if changing:
            shown.waits("; ".join(changing))
            return None
        return True
