"""Runs lm-eval's GSM8K against each service and puts the results into the bucket.

usage: quality.py MODEL LIMIT CONCURRENCY MAX_TOKENS PREFIX LABEL=BASE_URL...
environment: BUCKET, AWS_REGION, RUN_ID; API_KEY_SECRET, if the services ask for a key
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3

OUTPUT = Path(os.environ.get("SCRATCH", "/scratch")) / "quality"
INSTRUCTION = (
    "You are a helpful assistant. Solve the problem step by step, briefly. "
    "End with a line '#### ' followed by the final number."
)
# Qwen3 thinks aloud unless it is told not to, and would be cut off in mid-thought.
NO_THINKING = " /no_think"


def main(arguments: list[str]) -> int:
    """Evaluate each endpoint; returns 1 if any evaluation failed."""
    model, limit, concurrency, max_tokens, prefix, *endpoints = arguments
    failed = []
    for endpoint in endpoints:
        label, _, base_url = endpoint.partition("=")
        status = evaluate(model, limit, concurrency, max_tokens, base_url, OUTPUT / label)
        upload(OUTPUT / label, f"{prefix}{os.environ['RUN_ID']}/{label}/")
        if status:
            failed.append(label)
        else:
            print(f"{label}: {json.dumps(scores(OUTPUT / label))}", flush=True)
    if failed:
        print(f"lm-eval failed for {', '.join(failed)}; its output is above", file=sys.stderr)
    return 1 if failed else 0


def evaluate(
    model: str, limit: str, concurrency: str, max_tokens: str, base_url: str, output: Path
) -> int:
    """Run lm-eval against one endpoint; returns its exit status."""
    output.mkdir(parents=True, exist_ok=True)
    instruction = INSTRUCTION + (NO_THINKING if "qwen3" in model.lower() else "")
    model_arguments = (
        f"model={model},base_url={base_url}/chat/completions,num_concurrent={concurrency},"
        f"max_retries=3,tokenized_requests=False,max_gen_toks={max_tokens}"
    )
    command = [
        *(sys.executable, "-m", "lm_eval", "--model", "local-chat-completions"),
        *("--model_args", model_arguments),
        *("--tasks", "gsm8k", "--num_fewshot", "0", "--limit", limit),
        *("--apply_chat_template", "--system_instruction", instruction),
        *("--output_path", str(output), "--log_samples"),
    ]
    return subprocess.run(
        command, env=os.environ | {"OPENAI_API_KEY": key()}, check=False
    ).returncode


def key() -> str:
    """The services' key. Where they ask for none, the client still insists on one."""
    name = os.environ.get("API_KEY_SECRET")
    if not name:
        return "none"
    store = boto3.client("secretsmanager", region_name=os.environ["AWS_REGION"])
    return str(store.get_secret_value(SecretId=name)["SecretString"])


def upload(folder: Path, prefix: str) -> None:
    """Put every file below ``folder`` under ``prefix``."""
    store = boto3.client("s3", region_name=os.environ["AWS_REGION"])
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        store.upload_file(str(file), os.environ["BUCKET"], f"{prefix}{file.relative_to(folder)}")


def scores(folder: Path) -> dict[str, Any]:
    """The task's figures out of lm-eval's newest result file."""
    newest = max(folder.rglob("results*.json"), key=lambda path: path.stat().st_mtime)
    results: dict[str, Any] = json.loads(newest.read_text())["results"]
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
