"""A reverse proxy: requests are read whole before they are sent on, answers pass as they come.

It works on asyncio's protocols, with one callback from a read to the write that follows from it,
because it stands in the path of what is measured. Tasks and stream readers between the two would
double the cost of each chunk (docs/decisions/0013-the-proxy-under-the-tap.md).

A request through the proxy differs from a direct one in these ways:

- It has a connection of its own to the server.
- A server that cannot be reached becomes a 502, one that stays silent a 504.
- A message longer than ``spectap.limits`` allows is broken off or refused.
- A request whose ``Host`` or ``Origin`` is not loopback's, or whose target is not a path, is
  refused.
- Trailers and 1xx answers are not passed on. The proxy itself answers ``Expect``.
- CONNECT and requests that offer ``Upgrade`` get a 400
  (docs/decisions/0016-less-in-publishing-and-in-the-proxy.md).
"""
