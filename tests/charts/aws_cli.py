"""The AWS CLI, loaded once: each call is a fork of one process, which costs a quarter of a start.

usage: python -m tests.charts.aws_cli ADDRESS
Waits at the Unix socket ADDRESS for calls of the program that ``installed`` writes. A call has the
arguments, environment, folder and files of who called, and ends when the caller does.
"""

import contextlib
import functools
import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rehearsal.processes import await_line, running

READY: Final = "ready"
SECONDS: Final = 60.0
CALLER: Final = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"."], [0, 1, 2])
    call = json.dumps([sys.argv, dict(os.environ), os.getcwd()])
    server.sendall(call.encode() + b"\\n")
    sys.exit(int(server.recv(3) or 1))
"""


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """A folder with a program ``aws``, for the beginning of a path."""
    address, program = str(folder / "socket"), folder / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(CALLER.format(python=sys.executable, address=address))
    program.chmod(0o755)
    log = folder / "log"
    with running([sys.executable, "-m", __name__, address], os.environ, log) as process:
        await_line(process, log, READY, SECONDS)
        yield program.parent


def main(address: str) -> None:
    """Waits for calls, until it is ended."""
    import awscli.clidriver
    import awscli.handlers  # has the driver import it here and not in each call
    import botocore.session

    # Each call would read the descriptions of services again, for as long as all the rest.
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    session = botocore.session.get_session()
    session.create_client("s3", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    session.get_available_services()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what has ended
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        print(READY, flush=True)
        while True:
            caller, _ = server.accept()
            if not os.fork():
                os._exit(_answer(caller, awscli.clidriver.main))
            caller.close()


def _answer(caller: socket.socket, command: Callable[[], int]) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, *_ = socket.recv_fds(caller, 1, 3)
    sys.argv, environment, folder = json.loads(caller.makefile().readline())
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    set_as_it_is_imported = {"AWS_DATA_PATH": os.environ["AWS_DATA_PATH"]}
    os.environ.clear()
    os.environ.update(environment | set_as_it_is_imported)
    os.chdir(folder)
    threading.Thread(target=_end_with, args=[caller], daemon=True).start()
    try:
        status = command()
    except SystemExit as ended:  # of words that it does not know
        status = int(ended.code or 0)
    sys.stdout.flush()
    caller.sendall(str(status).encode())
    return 0


def _end_with(caller: socket.socket) -> None:
    caller.recv(1)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
