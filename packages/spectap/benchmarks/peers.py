"""What AIPerf, inference-perf and spectap say of one server, beside the server's own record.

``python -m benchmarks.peers FOLDER [--streams 1 16 64 256] [--repeats 3]``

``FOLDER`` has an environment of each tool (``make bench-peers`` makes them). The server is paced
and has one core, each tool the other, in turn. A tool's error is that of the percentile it reports,
against the same percentile by the server's record; the median over repeats is printed. At the end
the tap's processor time stands beside nginx's, before the same server.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib import pyplot

from benchmarks import processes
from benchmarks.paced import MODEL, TOKENS

EVENTS: Final = 24
STEP_SECONDS: Final = 0.1
ANSWERS: Final = 3
"""Of each stream, one after another."""

_HERE: Final = Path(__file__).parent
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Figures(NamedTuple):
    """What a tool reports, in seconds."""

    ttft_p50: float
    tpot_p50: float
    tpot_p99: float


class Result(NamedTuple):
    """One run of a tool: errors in percent; CPU in ms for 1,000 events; memory in MB."""

    tpot_p50: float
    tpot_p99: float
    ttft_p50: float
    cpu: float
    memory: float
    start: float
    """Seconds that it takes beyond those of its load."""


def _tokenizer(folder: Path) -> Path:
    """A tokenizer of words, as both peers load them: those of models would be downloaded."""
    path = folder / "tokenizer"
    path.mkdir()
    words = ["[UNK]", "go", "one", "two", "six", "ten", "shall", "compare", "thee", "summer", "day"]
    model = {"type": "WordLevel", "vocab": {word: number for number, word in enumerate(words)}}
    unused = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "model": model | {"unk_token": "[UNK]"},
        "pre_tokenizer": {"type": "Whitespace"},
        "added_tokens": [],
        **dict.fromkeys(unused),
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def _spectap(environment: Path, url: str, streams: int, folder: Path) -> list[str]:
    python = environment / "bin" / "python"
    return [str(python), "-m", "benchmarks.driven", url, str(streams), str(folder)]


def _read_spectap(folder: Path) -> Figures:
    return Figures(**json.loads((folder / "figures.json").read_text(encoding="utf-8")))


def _inference_perf(environment: Path, url: str, streams: int, folder: Path) -> list[str]:
    stage = {"num_requests": ANSWERS * streams, "concurrency_level": streams}
    load = {"type": "concurrent", "stages": [stage], "num_workers": 1}
    config = {
        "load": load | {"worker_max_concurrency": max(100, streams)},
        "api": {"type": "chat", "streaming": True},
        "data": {"type": "mock"},
        "server": {"type": "vllm", "model_name": MODEL, "base_url": url.removesuffix("/v1")},
        "tokenizer": {"pretrained_model_name_or_path": str(_tokenizer(folder))},
        "report": {"request_lifecycle": {"summary": True, "percentiles": [50, 99]}},
        "storage": {"local_storage": {"path": str(folder / "out")}},
    }
    (folder / "config.yml").write_text(json.dumps(config), encoding="utf-8")
    return [str(environment / "bin/inference-perf"), "-c", str(folder / "config.yml")]


def _read_inference_perf(folder: Path) -> Figures:
    (file,) = folder.rglob("summary_lifecycle_metrics.json")
    latency = json.loads(file.read_text(encoding="utf-8"))["successes"]["latency"]
    ttft, tpot = latency["time_to_first_token"], latency["time_per_output_token"]
    return Figures(ttft["median"], tpot["median"], tpot["p99"])


def _aiperf(environment: Path, url: str, streams: int, folder: Path) -> list[str]:
    options = {
        "--model": MODEL,
        "--url": url.removesuffix("/v1"),
        "--endpoint-type": "chat",
        "--tokenizer": _tokenizer(folder),
        "--concurrency": streams,
        "--request-count": ANSWERS * streams,
        "--synthetic-input-tokens-mean": 16,
        "--artifact-dir": folder / "out",
        "--export-level": "summary",
        "--ui": "none",
    }
    flags = ["--streaming", "--use-server-token-count", "--per-chunk-usage"]
    flags += ["--no-gpu-telemetry", "--no-server-metrics"]
    values = [str(each) for pair in options.items() for each in pair]
    return [str(environment / "bin/aiperf"), "profile", *values, *flags]


def _read_aiperf(folder: Path) -> Figures:
    (file,) = folder.rglob("profile_export_aiperf.json")
    of = json.loads(file.read_text(encoding="utf-8"))
    ttft, tpot = of["time_to_first_token"], of["inter_token_latency"]
    return Figures(*(value / 1000 for value in (ttft["p50"], tpot["p50"], tpot["p99"])))


class Tool(NamedTuple):
    """How a tool is started, and where it leaves its figures."""

    command: Callable[[Path, str, int, Path], list[str]]
    read: Callable[[Path], Figures]


TOOLS: Final[Mapping[str, Tool]] = {
    "spectap": Tool(_spectap, _read_spectap),
    "inference-perf": Tool(_inference_perf, _read_inference_perf),
    "aiperf": Tool(_aiperf, _read_aiperf),
}


def main() -> None:
    """Prints the tables, and writes all runs to FOLDER/results.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tools", nargs="+", default=list(TOOLS))
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {0})
    # It keeps other programs out, where it is allowed.
    real_time = not subprocess.run(["chrt", "-r", "5", "true"], check=False).returncode
    scheduling = ["chrt", "-r", "5"] if real_time else []
    print(f"{'real-time' if real_time else 'ordinary'} scheduling; load {os.getloadavg()[0]:.1f}")
    results: dict[str, list[Result]] = {}
    for repeat in range(arguments.repeats):
        for pace in ("lockstep", "staggered"):
            with _server(scheduling, EVENTS, STEP_SECONDS, staggered=pace != "lockstep") as url:
                for streams in arguments.streams:
                    for tool in arguments.tools:
                        result = _run(arguments.folder.absolute(), scheduling, tool, url, streams)
                        results.setdefault(f"{pace} {streams} {tool}", []).append(result)
                        line = ", ".join(f"{k} {v:.2f}" for k, v in result._asdict().items())
                        print(f"{repeat + 1}: {pace} {streams} {tool}: {line}", flush=True)
        saved = {key: [run._asdict() for run in runs] for key, runs in results.items()}
        (arguments.folder / "results.json").write_text(json.dumps(saved, indent=1))
    _table(results, arguments.folder)
    _plot(results, arguments.folder / "benchmarks.svg")
    if shutil.which("nginx"):
        _beside_nginx(scheduling)
    else:
        print("nginx is not installed (on Debian: apt-get install nginx-light)")


def _table(results: Mapping[str, Sequence[Result]], folder: Path) -> None:
    print(f"\n{'medians':<32}{'TPOT p50':>10}{'p99':>10}{'TTFT p50':>10}{'CPU, ms':>10}{'MB':>8}")
    for key, runs in results.items():
        of = Result(*np.median(np.array(runs), axis=0))
        errors = f"{of.tpot_p50:9.3f}%{of.tpot_p99:9.3f}%{of.ttft_p50:9.2f}%"
        print(f"{key:<32}{errors}{of.cpu:10.0f}{of.memory:8.0f}")
    for tool in TOOLS:
        starts = [run.start for key, runs in results.items() for run in runs if key.endswith(tool)]
        if starts:
            size = sum(
                file.stat().st_size
                for file in (folder / tool / "lib").rglob("*")
                if file.is_file() and file.suffix != ".pyc"
            )
            print(f"{tool}: {size / 1e6:,.0f} MB installed, first figure {min(starts):.1f} s later")


def _plot(results: Mapping[str, Sequence[Result]], path: Path) -> None:
    """Errors in lockstep by streams, in colours that are read on white and on black."""
    parts = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = dict.fromkeys(parts, "#808080") | {"svg.fonttype": "none", "font.size": 9}
    with pyplot.rc_context(style):
        figure, panels = pyplot.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
        for panel, name in zip(panels, Result._fields[:3], strict=True):
            for tool, colour in zip(TOOLS, ("#0072b2", "#d55e00", "#009e73"), strict=True):
                keys = [key for key in results if key.startswith("lock") and key.endswith(tool)]
                errors = [np.median([getattr(run, name) for run in results[k]]) for k in keys]
                streams = [key.split()[1] for key in keys]
                panel.plot(streams, np.maximum(errors, 0.001), "o-", color=colour, label=tool)
            panel.set(
                yscale="log",
                xlabel="streams in step",
                title=name.replace("_", " ").replace("tpot", "TPOT").replace("ttft", "TTFT"),
            )
            panel.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel("off by, %")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        figure.savefig(path, transparent=True)


@contextmanager
def _server(
    scheduling: Sequence[str], events: int, step: float, *, staggered: bool
) -> Iterator[str]:
    options = ["--step", str(step), "--events", str(events)] + ["--staggered"] * staggered
    command = [*scheduling, sys.executable, "-m", "benchmarks.paced", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def _run(environments: Path, scheduling: Sequence[str], tool: str, url: str, n: int) -> Result:
    _record(url)  # which empties it
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = TOOLS[tool].command(environments / tool, url, n, folder)
        began = time.monotonic()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["taskset", "-c", "1", *scheduling, *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": f"{_HERE.parent}:{_HERE.parent}/src"},
            )
        usage = _Usage(process.pid)
        status = process.wait(600)
        seconds = time.monotonic() - began
        usage.ended.set()
        if status:
            print((folder / "log").read_text(errors="replace")[-3000:], file=sys.stderr)
            raise SystemExit(f"{tool} ended with status {status}")
        reported = TOOLS[tool].read(folder)
    sent = _record(url)
    ttfts = [times[0] - received for received, times, _ in sent]
    tpots = [(times[-1] - times[0]) / TOKENS / (EVENTS - 1) for _, times, _ in sent]
    begin, end = min(r for r, _, _ in sent), max(times[-1] for _, times, _ in sent)
    return Result(
        tpot_p50=_error(reported.tpot_p50, tpots, 50),
        tpot_p99=_error(reported.tpot_p99, tpots, 99),
        ttft_p50=_error(reported.ttft_p50, ttfts, 50),
        cpu=1e6 * usage.seconds(begin, end) / (EVENTS * len(sent)),
        memory=usage.memory / 1e6,
        start=seconds - (end - begin),
    )


def _error(reported: float, truth: Sequence[float], percentile: float) -> float:
    return float(100 * abs(reported / np.percentile(truth, percentile) - 1))


def _record(url: str) -> list[tuple[float, list[float], str]]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/record") as response:
        sent: list[tuple[float, list[float], str]] = json.load(response)
    return sent


class _Usage:
    """Processor time and memory of a process and all that it starts, looked at twice a second."""

    def __init__(self, pid: int) -> None:
        self.memory = 0.0
        self.ended = threading.Event()
        self._root = pid
        self._samples: list[tuple[float, float]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self, begin: float, end: float) -> float:
        """Processor time between two moments."""
        times, used = zip(*self._samples, strict=True)
        before, after = np.interp([begin, end], times, used)
        return float(after - before)

    def _watch(self) -> None:
        latest: dict[int, float] = {}
        while not self.ended.wait(0.5):
            memory = 0.0
            for pid, ticks in self._tree():
                latest[pid] = ticks / _TICKS
                with contextlib.suppress(OSError, IndexError):
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
                    memory += 1024 * int(rollup.partition("Pss:")[2].split()[0])
            self.memory = max(self.memory, memory)
            # Those that have ended keep what they had used.
            self._samples.append((time.monotonic(), sum(latest.values())))

    def _tree(self) -> Iterator[tuple[int, int]]:
        """Each living process below the root, with its clock ticks."""
        parents, ticks = dict[int, int](), dict[int, int]()
        for file in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
                pid = int(file.parent.name)
                parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
        for pid in ticks:
            ancestor = pid
            while ancestor != self._root and ancestor in parents:
                ancestor = parents[ancestor]
            if ancestor == self._root:
                yield pid, ticks[pid]


def _beside_nginx(scheduling: Sequence[str], streams: int = 64, rate: int = 70) -> None:
    """The tap's processor time for each event beside nginx's, before staggered streams."""
    events = 4 * rate
    cpu: dict[str, list[float]] = {"tap": [], "nginx": []}
    with (
        tempfile.TemporaryDirectory() as name,
        _server(scheduling, events, 1 / rate, staggered=True) as url,
        _nginx(url, Path(name)) as nginx,
        processes.tapped(url, Path(name) / "ledger.jsonl") as tap,
    ):
        for _ in range(3):
            for proxy, (base, pid) in (("tap", tap), ("nginx", nginx)):
                before = _cpu_seconds(pid)
                names = [f"{time.monotonic_ns()}-{index}" for index in range(streams)]
                got = processes.streams(base, names, rate, events)
                assert all(len(of_stream) == events for of_stream in got)
                cpu[proxy].append(1e6 * (_cpu_seconds(pid) - before) / streams / events)
    tap_ms, nginx_ms = (float(np.median(values)) for values in cpu.values())
    print(f"CPU for 1,000 events at {streams} streams of {rate} events/s, staggered:")
    print(f"tap {tap_ms:.0f} ms, nginx {nginx_ms:.0f} ms: {tap_ms / nginx_ms:.2f}")


@contextmanager
def _nginx(url: str, folder: Path) -> Iterator[tuple[str, int]]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        events {{ worker_connections 4096; }}
        http {{ access_log {folder}/access.log;
          server {{ listen 127.0.0.1:{port};
            location / {{ proxy_pass {url.removesuffix("/v1")}; proxy_buffering off;
              proxy_http_version 1.1; }} }} }}"""
    )
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1", process.pid
        finally:
            process.terminate()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
