"""Pins images by digest: asks each registry what a tag names now.

usage: python -m scripts.digests

Writes experiment/digests.json for the images of the pods, and the FROM lines of
spectap/Dockerfile. An image whose registry does not say stays as it is. The pods of a pinned
image are others, and so are the graphs that it compiles: their key has the digest.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import HTTPMessage
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from experiment import images
from experiment.runtimes import RUNTIMES

ROOT: Final = Path(__file__).resolve().parent.parent
DOCKERFILE: Final = ROOT / "spectap" / "Dockerfile"
FROM: Final = re.compile(r"^FROM ([^\s@]+)(?:@sha256:[0-9a-f]{64})?", re.M)

# An index, where there is one: it has the image of each architecture.
ACCEPTED: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
TIMEOUT_SECONDS: Final = 20.0


def main() -> int:
    """Pins all; returns 1 if a registry did not say what a tag names."""
    of_pods = [images.AWS_CLI, images.PYTHON, *(r.image for r in RUNTIMES.values())]
    missing = pin_file(of_pods, images.FILE) + pin_dockerfile(DOCKERFILE)
    for line in missing:
        print(f"stays by its tag: {line}", file=sys.stderr)
    return 1 if missing else 0


def pin_file(named: Iterable[str], file: Path) -> list[str]:
    """Writes the digests of these images to ``file``; returns a line for each that is not found.

    One that was known before is kept then.
    """
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    digests, missing = {}, []
    for image in sorted(set(named)):
        try:
            digests[image] = digest_of(image)
        except (OSError, ValueError) as error:
            missing.append(f"{image}: {error}")
            digests |= {image: before[image]} if image in before else {}
    file.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    return missing


def pin_dockerfile(file: Path) -> list[str]:
    """Writes the digests into the FROM lines; returns a line for each that is not found."""
    text, missing = file.read_text(encoding="utf-8"), []
    for image in sorted(set(FROM.findall(text))):
        try:
            pinned = f"FROM {image}@{digest_of(image)}"
        except (OSError, ValueError) as error:
            missing.append(f"{image}: {error}")
            continue
        named = re.compile(rf"^FROM {re.escape(image)}(?:@\S+)?(?=\s|$)", re.M)
        text = named.sub(pinned, text)
    file.write_text(text, encoding="utf-8")
    return missing


def digest_of(image: str) -> str:
    """What the registry says that a tag names. Raises OSError, and ValueError for no answer.

    The registry's API: opencontainers/distribution-spec v1.1.0, ``spec.md``, "Pull". Tokens:
    distribution/distribution v2.8.3, "Token Authentication Specification".
    """
    host, name, tag = parts(image)
    # As Docker does, a registry on this machine is asked without TLS.
    scheme = "http" if host.startswith(("localhost:", "127.0.0.1:")) else "https"
    url = f"{scheme}://{host}/v2/{name}/manifests/{tag}"
    try:
        headers = _ask(url)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        headers = _ask(url, _token(error.headers.get("WWW-Authenticate", "")))
    digest = headers.get("Docker-Content-Digest", "")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{host} names no digest")
    return digest


def parts(image: str) -> tuple[str, str, str]:
    """Registry, repository and tag. A name without a registry is Docker Hub's."""
    path, _, tag = image.rpartition(":")
    host, _, name = path.partition("/")
    if not name or ("." not in host and ":" not in host):
        host, name = "registry-1.docker.io", path if "/" in path else f"library/{path}"
    return host, name, tag


def _ask(url: str, token: str | None = None) -> HTTPMessage:
    headers = {"Accept": ACCEPTED} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, headers=headers, method="HEAD")
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        returned: HTTPMessage = answer.headers
        return returned


def _token(challenge: str) -> str:
    """A token for anybody, from where the registry says."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if "realm" not in fields:
        raise ValueError(f"it wants {challenge or 'a password'}")
    query = urlencode({key: fields[key] for key in ("service", "scope") if key in fields})
    with urllib.request.urlopen(f"{fields['realm']}?{query}", timeout=TIMEOUT_SECONDS) as answer:
        granted = json.load(answer)
    return str(granted.get("token") or granted["access_token"])


if __name__ == "__main__":
    sys.exit(main())
