"""Where sandboxes have files of their own, and folders of the host that can be there beside them."""

from __future__ import annotations

from collections.abc import Iterable

OWN = (
    *("/testbed", "/tmp", "/var/tmp", "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/run/cell", "/opt/python", "/opt/patchgrad"),
)
"""Where a sandbox has files of its own, whichever its backend."""


def unfit(folder: str, own: Iterable[str] = OWN) -> str:
    """What is wrong with a folder of the host that sandboxes are to have at the same path; nothing where it can be there."""
    if folder != "/" + "/".join(part for part in folder.split("/") if part not in ("", ".", "..")):
        return f"{folder!r} is no absolute path in its plain form, such as /opt/agents"
    for place in own:
        if f"{place}/".startswith(f"{folder.rstrip('/')}/") or folder.startswith(f"{place}/"):
            where = "what" if place == folder else f"{'above' if len(folder) < len(place) else 'below'} {place}, which"
            return f"{folder} is {where} sandboxes have of their own; put what is to be seen elsewhere, such as in /opt/agents"
    return ""
