"""The end of the nodes, once all results of a run are in the bucket."""

from __future__ import annotations

import sys
from collections.abc import Callable

from spectap.config import Config
from spectap.errors import StopError


def stop(config: Config, sleep: Callable[[float], None]) -> None:
    """Ends the nodes, if the configuration says what does.

    A failure is said and fails nothing: the results are there, and the guard ends the nodes later.
    """
    if config.stopper is None or config.region is None:
        return
    # Only here: what stops nothing needs no AWS SDK.
    from spectap.aws.stopper import Stopper

    try:
        Stopper(config.stopper, config.region, sleep).start()
    except StopError as error:
        print(
            f"spectap: the Trainium nodes were not stopped: {error}; make stop stops them, and "
            "later their guard",
            file=sys.stderr,
        )
    else:
        print("spectap: the Trainium nodes are being stopped; make start brings them back")
