"""From a request for a stream to its WebSocket: which protocol, which command or port, and who says no."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from localcluster.streaming import StreamNode, port_forward, remote_command
from localcluster.wire import Stream

NO_NODE = "no node agent of this process serves streams: exec and port-forward need `--agent process`"
MAX_MESSAGE_BYTES = 16 << 20


async def serve_stream(request: web.Request, stream: Stream, node: StreamNode | None) -> web.StreamResponse:
    """Until one side ends it."""
    offered = [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    known = remote_command.PROTOCOLS if stream.subresource == "exec" else port_forward.PROTOCOLS
    if not any(each in known for each in offered):
        text = f"none of the protocols {', '.join(offered) or '(none)'} is known, only {', '.join(known)}"
        return web.Response(status=403, text=f"unable to upgrade: {text}\n")
    socket = web.WebSocketResponse(protocols=known, compress=False, max_msg_size=MAX_MESSAGE_BYTES)
    await socket.prepare(request)
    if stream.subresource == "exec":
        await _execute(socket, stream, node)
    else:
        await _forward(socket, stream, node)
    await socket.close()
    return socket


async def _execute(socket: web.WebSocketResponse, stream: Stream, node: StreamNode | None) -> None:
    query = stream.query
    flags = {name: _is_true(query.get(name)) for name in ("stdin", "stdout", "stderr", "tty")}
    command = remote_command.Command(tuple(query["command"]), **flags)
    try:
        if node is None:
            raise LookupError(NO_NODE)
        line = node.command_beside(stream.namespace, stream.pod, stream.container, command.words)
    except LookupError as error:
        await remote_command.send_status(socket, remote_command.internal_error(str(error.args[0])))
        return
    await remote_command.execute(socket, line, command)


async def _forward(socket: web.WebSocketResponse, stream: Stream, node: StreamNode | None) -> None:
    pod = f"{stream.pod}, uid {stream.uid}"
    try:
        if node is None:
            raise LookupError(NO_NODE)
        addresses = node.addresses(stream.namespace, stream.pod)
    except LookupError as error:
        await socket.close(code=1011, message=str(error.args[0]).encode()[:120])
        return
    if socket.ws_protocol == port_forward.TUNNEL:
        await port_forward.Tunnel(socket, pod, addresses).run()
    else:
        ports = [int(port) for value in stream.query.get("ports", ()) for port in value.split(",")]
        await port_forward.channels(socket, pod, addresses, ports)


def _is_true(values: Sequence[str] | None) -> bool:
    """Reads a flag of a query as Kubernetes does: `?tty` without a value is true."""
    return bool(values) and values[0].lower() not in ("false", "0") if values else False
