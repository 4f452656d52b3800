"""Pins images by digest: asks each registry what a tag names now.

usage: python -m tools.digests

Writes experiment/digests.json for the images of the pods, and the FROM lines of spectap's
Dockerfile. An image whose registry does not say stays as it is. The pods of a pinned
image are others, and so are the graphs that it compiles: their key has the digest.
"""

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import HTTPResponse
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from experiment import images
from experiment.runtimes import RUNTIMES

DOCKERFILE: Final = Path(__file__).resolve().parents[1] / "packages/spectap/Dockerfile"
FROM: Final = re.compile(r"^FROM ([^\s@]+:[^\s@]+)(?:@\S+)?", re.M)

# An index, where there is one: it has the image of each architecture.
ACCEPTED: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
TIMEOUT_SECONDS: Final = 20.0


def main() -> int:
    """Pins all; returns 1 if a registry did not say what a tag names."""
    of_pods = [images.AWS_CLI, images.PYTHON, *(r.image for r in RUNTIMES.values())]
    missing = pin(of_pods, images.FILE, DOCKERFILE)
    for line in missing:
        print(f"stays by its tag: {line}", file=sys.stderr)
    return 1 if missing else 0


def pin(of_pods: Iterable[str], file: Path, dockerfile: Path) -> list[str]:
    """Writes what the registries say into both files; returns a line for each that did not."""
    before, text = json.loads(file.read_text()), dockerfile.read_text(encoding="utf-8")
    named, missing, digests = sorted(set(of_pods)), [], {}
    for image in {*named, *FROM.findall(text)}:
        try:
            digests[image] = digest_of(image)
        except (OSError, ValueError) as error:
            missing.append(f"{image}: {error}")
    known = {image: (before | digests)[image] for image in named if image in before | digests}
    file.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    pinned = FROM.sub(
        lambda line: f"FROM {line[1]}@{digests[line[1]]}" if line[1] in digests else line[0], text
    )
    dockerfile.write_text(pinned, encoding="utf-8")
    return sorted(missing)


def digest_of(image: str) -> str:
    """What the registry says that a tag names. Raises OSError, and ValueError for no answer.

    The registry's API: opencontainers/distribution-spec v1.1.0, ``spec.md``, "Pull".
    """
    path, _, tag = image.rpartition(":")
    url = f"{repository_url(path)}/manifests/{tag}"
    answer = opened(urllib.request.Request(url, headers={"Accept": ACCEPTED}, method="HEAD"))
    digest = str(answer.headers.get("Docker-Content-Digest", ""))
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{url} names no digest")
    return digest


def repository_url(path: str) -> str:
    """Where the registry has an image without its tag."""
    host, _, name = path.partition("/")
    if "." not in host and ":" not in host:  # Docker Hub's
        host, name = "registry-1.docker.io", path if name else f"library/{path}"
    # As Docker does, a registry on this machine is asked without TLS.
    scheme = "http" if host.startswith(("localhost:", "127.0.0.1:")) else "https"
    return f"{scheme}://{host}/v2/{name}"


def opened(request: urllib.request.Request) -> HTTPResponse:
    """The answer to a request, with a token for anybody where one is wanted. Raises OSError.

    Tokens: distribution/distribution v2.8.3, "Token Authentication Specification".
    """
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        request.add_header("Authorization", f"Bearer {_token(error.headers['WWW-Authenticate'])}")
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    return answer


def _token(challenge: str | None) -> str:
    """A token for anybody, from where the registry says."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge or ""))
    if "realm" not in fields:
        raise ValueError(f"it wants {challenge or 'a password'}")
    query = urlencode({key: fields[key] for key in ("service", "scope") if key in fields})
    with urllib.request.urlopen(f"{fields['realm']}?{query}", timeout=TIMEOUT_SECONDS) as answer:
        granted = json.load(answer)
    return str(granted.get("token") or granted["access_token"])


if __name__ == "__main__":
    sys.exit(main())
