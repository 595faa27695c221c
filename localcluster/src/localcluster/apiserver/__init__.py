"""A Kubernetes API server without sockets: `ApiServer.handle(Request) -> Response | Watch`. `localcluster.http` serves
it.

Serves: every kubectl verb, and the line "The API" of docs/local-cluster.md.
"""

from localcluster.apiserver.server import VERSION, ApiServer

__all__ = ["VERSION", "ApiServer"]
