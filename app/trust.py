"""Which keys may go to an address that stands in a settings file which just lay in the folder.

Such a file may have come with somebody else's repository. It may name a variable of its own, but it must not turn a
person's keys for known services to another address. Not covered: variables whose names tell nobody what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

OWNERS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic.com",
    "ANTHROPIC_AUTH_TOKEN": "anthropic.com",
    "AWS_ACCESS_KEY_ID": "amazonaws.com",
    "AWS_BEARER_TOKEN_BEDROCK": "amazonaws.com",
    "AWS_SECRET_ACCESS_KEY": "amazonaws.com",
    "AWS_SESSION_TOKEN": "amazonaws.com",
    "AZURE_API_KEY": "azure.com",
    "AZURE_OPENAI_API_KEY": "azure.com",
    "DEEPSEEK_API_KEY": "deepseek.com",
    "FIREWORKS_API_KEY": "fireworks.ai",
    "GEMINI_API_KEY": "googleapis.com",
    "GH_TOKEN": "github.ai",
    "GITHUB_TOKEN": "github.ai",
    "GOOGLE_API_KEY": "googleapis.com",
    "GROQ_API_KEY": "groq.com",
    "HF_TOKEN": "huggingface.co",
    "MISTRAL_API_KEY": "mistral.ai",
    "NVIDIA_API_KEY": "nvidia.com",
    "OPENAI_ADMIN_KEY": "openai.com",
    "OPENAI_API_KEY": "openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "together.xyz",
    "WARPSMITH_API_KEY": "",
    "XAI_API_KEY": "x.ai",
}
"""Variables in which people keep keys, and the domain of the service that each is for; empty: none in particular."""


def may_send(variable: str, address: str, named_by_file: bool) -> bool:
    """Whether such a file may have what `variable` holds sent to `address`. named_by_file: it is the file that names
    the variable."""
    owner = OWNERS.get(variable)
    if owner is None:
        return named_by_file
    parts = urlsplit(address)
    host = (parts.hostname or "").lower()
    return bool(owner) and parts.scheme == "https" and (host == owner or host.endswith(f".{owner}"))


def may_read(key_file: Path, settings_file: Path) -> bool:
    """Whether such a file may have the key in `key_file` sent anywhere: only one that lies beside it or below."""
    return key_file.resolve().is_relative_to(settings_file.resolve().parent)
