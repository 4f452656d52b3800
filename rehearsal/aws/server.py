"""The embedded AWS: moto's server, with what this project needs of AWS and moto lacks.

``python -m rehearsal.aws.server`` serves on loopback until it is ended. Its first line is its URL.
``mended`` says what is put right in moto. Beside AWS's calls it answers two of its own:
``authenticator`` of the API server, and the node groups' sizes over time.
"""

from __future__ import annotations

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from rehearsal.aws.calls import Calls
from rehearsal.aws.mended import machines, mend
from rehearsal.aws.own_calls import OwnCalls


def main() -> None:
    """Serves until the process is ended."""
    mend()
    application = OwnCalls(Calls(DomainDispatcherApplication(create_backend_app)))
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    machines.serve_on(server.port)
    # By this name, because moto recognises the URL of a template in its own S3 by it.
    print(f"http://localhost:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
