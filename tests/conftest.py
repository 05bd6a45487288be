"""Property tests run without a deadline: a slow moment of a shared machine is no bug. Container engines are started once for all."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patchgrad", deadline=None, max_examples=60)
settings.load_profile("patchgrad")
pytest_plugins = ("tests.sandboxes.engines",)
