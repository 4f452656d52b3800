"""moto as it is."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from moto import mock_aws


@pytest.fixture
def unmended(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    with mock_aws():
        yield lambda service: boto3.client(service, region_name="us-east-2")
