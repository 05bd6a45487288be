"""Language models behind an address: chat completions as OpenAI's protocol has them, which vLLM, SGLang, llama.cpp and hosts speak too.

The policy behind an endpoint and the statements that a model writes both ask through this.
"""

from __future__ import annotations

from patchgrad.endpoints.address import KEY
from patchgrad.endpoints.chat import Chat
from patchgrad.endpoints.response import Answer

__all__ = ["KEY", "Answer", "Chat"]
