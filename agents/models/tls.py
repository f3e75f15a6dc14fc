"""What connections to providers share."""

from __future__ import annotations

import ssl
from functools import lru_cache


@lru_cache(maxsize=1)
def trust() -> ssl.SSLContext:
    """The certificates that count, as the SDKs' HTTP client finds them, `SSL_CERT_FILE` included.

    Read once a process: that takes longer than all else that a request needs on our side.
    """
    import httpx2

    return httpx2.create_ssl_context()
