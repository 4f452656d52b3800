"""``make upstream``: what is newer than what is pinned, by what is told without credentials.

uv and npm ask for packages, through the mirrors and proxies that they are set up with.
"""

import functools
import json
import re
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from packaging.version import Version

from experiment import images
from experiment.runtimes import RUNTIMES
from operations.console import Console, print_table
from stacks import addons
from stacks.cluster import KUBERNETES_VERSION
from stacks.constructs import neuron_dra_driver as driver
from tools.digests import TIMEOUT_SECONDS, opened, repository_url
from tools.lock import OLDEST, PLATFORM

ROOT: Final = Path(__file__).resolve().parents[1]
AMI_RELEASES: Final = "https://raw.githubusercontent.com/awslabs/amazon-eks-ami/main/CHANGELOG.md"
ADDON: Final = "https://docs.aws.amazon.com/eks/latest/userguide/managing-{}.md"
DOCUMENTED: Final = frozenset({"coredns", "kube-proxy", "vpc-cni"})
"""Add-ons whose page has the newest version for each version of Kubernetes."""
UV: Final = (
    *("uv", "pip", "compile", "-", "--no-deps", "--no-header", "--no-annotate"),
    *("--only-binary=:all:", f"--python-version={OLDEST}", f"--python-platform={PLATFORM}"),
)
NUMBER: Final = r"\d+(?:\.\d+)*"
NPM: Final = ("npm", "view", "--json", "--loglevel=error", "--fetch-retries=0")


class Pin(NamedTuple):
    """A version that this project names, and where the newest one is looked for."""

    what: str
    version: str
    files: str
    source: str  # empty where AWS tells accounts only
    offered: Callable[[str], Collection[str]]


def pins() -> Iterator[Pin]:
    """Everything that newer ones are looked for, read from where it is used."""
    for files, names in (
        ("requirements.txt, tools/requirements/constraints.txt", r"[\w.-]+"),
        ("tests/vllm/requirements.txt", r"vllm[\w-]*"),
    ):
        text = (ROOT / files.partition(",")[0]).read_text(encoding="utf-8")
        for name, version in re.findall(rf"^({names})==(\S+)", text, re.M):
            yield Pin(name, version, files, f"pypi:{name}", re.compile(r"==(\S+)").findall)
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    for name, version in package["devDependencies"].items():
        # Of the same major version: docs/decisions/0002-dependencies.md says why.
        offered = re.compile(f'"({NUMBER})"').findall
        yield Pin(f"{name}, npm", version, "package.json", f"npm:{name}@^{version}", offered)
    yield _image("AWS CLI, image", images.AWS_CLI, images.__name__)
    yield _image("Neuron chart", f"{driver.CHART}:{driver.CHART_VERSION}", driver.__name__)
    newest = max((runtime.image for runtime in RUNTIMES.values()), key=_order)
    for name, runtime in RUNTIMES.items():
        # An older generation stays with its vLLM, and its nodes with the driver that it needs.
        is_older, ami, module = runtime.image != newest, runtime.ami_release, runtime.__module__
        yield _image(f"{name}, image", runtime.image, module, keeps_version=is_older)
        releases = functools.partial(_ami_releases, driver_of=ami if is_older else None)
        yield Pin(f"{name}, AMI", ami, _file(module), AMI_RELEASES, releases)
    # The first of a page's tables is of add-ons.
    latest = re.compile(
        rf"(?s)\A.*?\|\s*{re.escape(KUBERNETES_VERSION)}\s*\|\s*(v{NUMBER}-\w+\.\d+)"
    )
    for name, version in addons.VERSIONS.items():
        source = ADDON.format(name) if name in DOCUMENTED else ""
        yield Pin(f"{name}, add-on", version, _file(addons.__name__), source, latest.findall)


def _image(what: str, image: str, module: str, keeps_version: bool = False) -> Pin:
    """Newer tags are written as the pinned one is: no candidates, no aliases."""
    repository, _, tag = image.rpartition(":")
    version, dash, rest = tag.partition("-")
    like = (re.escape(version) if keeps_version else NUMBER) + dash
    like += NUMBER.join(re.split(r"[\d.]+", rest))
    return Pin(what, tag, _file(module), f"oci://{repository}", re.compile(f'"({like})"').findall)


def _ami_releases(changelog: str, driver_of: str | None) -> Collection[str]:
    """Those for the cluster's version, of any driver or of one release's. No withdrawn ones."""
    release, within = rf"({re.escape(KUBERNETES_VERSION)}\.\d+-\d{{8}})<", "(?:(?!^# ).)*?"
    parts = ("^# AMI Release", release, "aws-neuronx-dkms", r"(\d+\.\d+)[\d.]*-dkms")
    drivers = dict(re.findall(within.join(parts), changelog, re.M | re.S))
    return [r for r in drivers if driver_of is None or drivers[r] == drivers.get(driver_of)]


def _file(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _order(version: str) -> Version:
    """For an image too, and for ``v1.22.4-eksbuild.3``: what follows the dash is local."""
    return Version(version.rpartition(":")[2].replace("-", "+", 1))


def _answer(source: str) -> str:
    """What is published. Raises OSError and ValueError where no answer comes in time.

    A source is ``pypi:`` or ``npm:`` and a requirement, ``oci://`` and a repository, or a URL.
    """
    kind, _, name = source.partition(":")
    if kind not in ("pypi", "npm"):
        return _pages(f"{repository_url(name[2:])}/tags/list?n=1000" if kind == "oci" else source)
    command, text = (UV, name) if kind == "pypi" else ((*NPM, name, "version"), None)
    try:
        ended = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{command[0]} timed out") from None
    if ended.returncode:
        raise OSError(textwrap.shorten(ended.stderr, 160))
    return ended.stdout


def _pages(url: str) -> str:
    """A page and those that its ``Link`` names (distribution-spec v1.1.0, "Listing Tags")."""
    end, text = time.monotonic() + TIMEOUT_SECONDS, b""
    while url:
        try:
            with opened(urllib.request.Request(url)) as answer:
                while part := answer.read1():
                    text += part
                    if time.monotonic() > end:
                        raise TimeoutError("timed out")
        except OSError as error:
            reason = getattr(error, "reason", error)
            why = getattr(reason, "strerror", None) or reason
            raise OSError(f"{urlsplit(url).netloc}: {why}") from None
        link = re.match(r'<([^>]+)>; *rel="?next', answer.headers.get("Link", ""))
        url = urljoin(url, link[1]) if link else ""
    return text.decode("utf-8", "replace")


def _row(pin: Pin, answer: str | BaseException | None) -> tuple[int, str, str, str, str]:
    """A row of the table, after its place: what is newer first, then what is not known."""
    place, newest = 3, "none newer"
    if answer is None:
        place, newest = 2, "told to accounts only: make preflight"
    elif isinstance(answer, BaseException):
        place, newest = 1, f"not known: {answer}"
    elif not (offered := pin.offered(answer)):
        place, newest = 1, "not known: the answer names no version"
    elif _order(latest := max(offered, key=_order)) > _order(pin.version):
        place, newest = 0, latest
    return place, pin.what, pin.version, newest, pin.files


def main() -> int:
    """Prints the table; returns 1 if nobody answered."""
    listed = list(pins())
    sources, answers = {pin.source for pin in listed} - {""}, dict[str, str | BaseException]()
    asking = Console(1).stage("asking registries and pages")
    with asking as stage, ThreadPoolExecutor(len(sources)) as pool:
        asked = {pool.submit(_answer, source): source for source in sources}
        for future in as_completed(asked):
            answers[asked[future]] = future.exception() or future.result()
            stage.progress = f"{len(answers)} of {len(sources)}"
    rows = sorted(_row(pin, answers.get(pin.source)) for pin in listed)
    print_table([("what", "pinned", "newest", "change it in"), *(row[1:] for row in rows)])
    newer, unknown, private, same = (sum(row[0] == place for row in rows) for place in range(4))
    print(
        f"of {len(rows)}: {newer} have something newer, {same} have not, {unknown} are not known, "
        f"{private} are told to accounts only; after a change of constraints.txt, make locks"
    )
    return 0 if any(isinstance(answer, str) for answer in answers.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
