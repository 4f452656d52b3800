"""A reverse proxy: requests are read whole and sent on, answers pass as they come.

It works on asyncio's protocols, one callback from a read to the write it leads to, since it stands
in the path of what is measured: tasks and stream readers between the two would double what each
chunk costs (docs/decisions/0013-the-proxy-under-the-tap.md).

What differs from a direct connection: each request has a connection of its own to the server; a
server that cannot be reached becomes a 502, one that stays silent a 504; offers to upgrade the
protocol, trailers and answers of 1xx are not passed on, and the proxy itself answers ``Expect``.
"""
