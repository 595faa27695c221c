"""A Kubernetes API server without sockets: `ApiServer.handle(Request) -> Response | Watch`. `localcluster.http` serves it."""

from localcluster.apiserver.server import VERSION, ApiServer

__all__ = ["VERSION", "ApiServer"]
