"""What the image holds, as far as is known without building it."""

import functools
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import spectap
from spectap.load import llmperf
from tests.test_layers import imports

FOLDER = Path(spectap.__file__).parent
PACKAGE = Path(__file__).parents[1]
DOCKERFILE = (PACKAGE / "Dockerfile").read_text(encoding="utf-8")


def pins() -> dict[str, str]:
    lines = (PACKAGE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {normal(name): version for name, version in pairs}


@functools.cache
def imported() -> set[str]:
    """The packages, other than Python's and its own, that the benchmark imports."""
    modules = {name.partition(".")[0] for _, name in imports()}
    packages = metadata.packages_distributions()
    foreign = modules - sys.stdlib_module_names - {FOLDER.name}
    return {normal(packages[module][0]) for module in foreign}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_imported_is_there_at_the_version_it_is_tested_with() -> None:
    assert {"httptools", "aiohttp", "jinja2"} <= imported()
    tested = {name: metadata.version(name) for name in imported()}
    assert {name: pins().get(name) for name in tested} == tested


def test_the_wheel_needs_what_is_imported() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *extras["report"], *extras["aws"]]
    # These come with boto3, Jinja and pydantic.
    brought = {"botocore", "markupsafe", "pydantic-core"}
    assert {normal(each.partition(">=")[0]) for each in listed} == imported() - brought


def test_what_the_image_is_made_of_is_pinned_by_its_content() -> None:
    bases = set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) - {"scratch"}
    assert all(re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", base) for base in bases)
    installs = re.findall(r"pip install(?:.|\\\n)+", DOCKERFILE)
    assert len(installs) == 3
    assert all(" --no-deps --require-hashes --only-binary :all: " in each for each in installs)


def test_llmperf_is_the_commit_that_the_code_follows() -> None:
    (commit,) = re.findall(r"llmperf\.git#([0-9a-f]{40}) ", DOCKERFILE, re.MULTILINE)
    assert f"@{commit[:7]}" in (llmperf.__doc__ or "")
