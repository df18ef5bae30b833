"""Pages of servers on this machine."""

import urllib.request

# No proxy of the environment has a part in it.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetched(url: str, *, timeout_s: float, json_body: bytes | None = None) -> bytes:
    """What a server answers to GET, or to POST with a body of JSON.

    Raises:
        OSError: if it cannot be asked, or refuses.
    """
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json_body, headers=headers)
    with _DIRECT.open(request, timeout=timeout_s) as answer:
        return answer.read()
