"""The embedded AWS: moto's server, with a ListMetrics that ends.

``python -m rehearsal.aws_server`` serves on loopback, on any port, until it is ended. Its first
line is its URL.
"""

from moto.cloudwatch.models import CloudWatchBackend, MetricDatumBase
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server


def serve() -> None:
    """Serves until the process is ended."""
    CloudWatchBackend.get_filtered_metrics = (  # type: ignore[method-assign]  # moto has no hook
        distinct_metrics
    )
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()


def distinct_metrics(
    self: CloudWatchBackend, metric_name: str, namespace: str, dimensions: list[dict[str, str]]
) -> list[MetricDatumBase]:
    """Each metric once. moto 5.2.5 compares each value with each, which takes minutes."""
    distinct = {
        (datum.namespace, datum.name, tuple((d.name, d.value) for d in datum.dimensions)): datum
        for datum in self.get_all_metrics()
    }
    return [
        datum for datum in distinct.values() if datum.filter(namespace, metric_name, dimensions)
    ]


if __name__ == "__main__":
    serve()
