"""What a cell is made of: the host's programs with a Python of ours, or the file system of an image.

An image may have no Python, or another C library than the host. So the zygote is the host's Python, run by the host's own loader from the
box, where it is out of the image's way: `ld.so --library-path A:B python3.11 ...`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

from patchgrad.sandboxes.linux import shell, system
from patchgrad.sandboxes.linux.frames import Header

_BUNDLED = "lib/{}/ensurepip/_bundled"  # wheels, with copies of many packages in them


@dataclass(frozen=True, slots=True)
class Interior:
    """Arguments of bubblewrap: `files` make the file system, `boxed` go over the box, `program` is the interpreter that becomes PID 1.

    `temporary` are the paths of temporary files, the same ones at each. `mounted` is what was mounted for it, and goes with its template.
    """

    files: list[str]
    boxed: list[str]
    program: list[str]
    temporary: tuple[str, ...]
    mounted: tuple[str, ...] = ()


def host(shared: str, settings: Header, site: str) -> Interior:
    """The host's `/usr` with listed programs alone, and a Python with the packages of a site, by default pytest and little else."""
    args = ["--ro-bind", "/usr", "/usr", "--symlink", "/tmp", "/var/tmp"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            args += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            args += ["--ro-bind", f"/{name}", f"/{name}"]
    for path in settings["hidden"]:
        if os.path.isdir(path):
            args += ["--ro-bind", f"{shared}/empty", path]
    for path, programs in (("/usr/bin", "programs"), ("/usr/sbin", "empty"), ("/bin", "programs"), ("/sbin", "empty")):
        if os.path.isdir(path) and not os.path.islink(path):
            args += ["--ro-bind", f"{shared}/{programs}", path]
    python = f"/opt/python/bin/{settings['python']}"
    args += ["--ro-bind", f"{shared}/etc", "/etc", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    args += [*_standard(shared, settings), "--ro-bind", f"{shared}/bin", "/opt/python/bin"]
    args += ["--ro-bind", f"{shared}/python/bin/{settings['python']}", python]
    args += ["--ro-bind", f"{shared}/{site or settings['site']}", f"/opt/python/{settings['packages']}"]
    if os.path.isdir(f"{shared}/python/{_BUNDLED.format(settings['python'])}"):
        args += ["--ro-bind", f"{shared}/empty", f"/opt/python/{_BUNDLED.format(settings['python'])}"]
    if library := settings["library"]:  # at its own path, which is written into the program
        args += ["--ro-bind", f"{shared}/python{library.removeprefix(settings['prefix'])}", library]
    return Interior([*args, *_shown(shared, settings)], [], [python], ("/tmp",))


def _shown(shared: str, settings: Header) -> list[str]:
    """The folders that the user chose of the host, each at its own path, one that holds another one first."""
    places = {path: f"{shared}/folders/{number}" for number, path in enumerate(settings["folders"])}
    return [word for path in sorted(places) for word in ("--ro-bind", places[path], path)]


def _standard(shared: str, settings: Header) -> list[str]:
    """Python's own library and nothing beside it: a prefix may be all of `/usr`, where copies of packages lie that `hidden` tells of."""
    prefix, found = f"{shared}/python", list[str]()
    for place in settings["standard"]:
        found += ["--ro-bind", f"{prefix}/{place}", f"/opt/python/{place}"]
        for name in ("site-packages", "dist-packages"):
            if os.path.isdir(f"{prefix}/{place}/{name}"):
                found += ["--ro-bind", f"{shared}/empty", f"/opt/python/{place}/{name}"]
    if settings["prefix"] == "/usr" or not os.path.isdir(f"{prefix}/lib"):
        return found
    libraries = [name for name in sorted(os.listdir(f"{prefix}/lib")) if ".so" in name and os.path.isfile(f"{prefix}/lib/{name}")]
    return found + [word for name in libraries for word in ("--ro-bind", f"{prefix}/lib/{name}", f"/opt/python/lib/{name}")]


def image(shared: str, settings: Header, name: str, folder: str) -> Interior:
    """An image laid out by `images`; makes what it needs in the template's `folder`.

    `ValueError` where no loader is known, or where the image has something else in the place of a folder of the host's.
    """
    loader, libraries = _loader(settings["prefix"])
    box, root = shell.BOX, f"{shared}/{name}/root"
    mounted = _with_places(root, settings["folders"], folder) if settings["folders"] else ()
    files = ["--ro-bind", *(mounted or (root,)), "/", "--ro-bind", f"{shared}/etc/gitconfig", "/etc/gitconfig", *_shown(shared, settings)]
    boxed = ["--ro-bind", f"{shared}/python", f"{box}/python", "--ro-bind", f"{shared}/plugin", shell.PLUGIN]
    for place in ("python", "plugin", *(f"host/{number}" for number in range(len(libraries)))):
        os.makedirs(f"{folder}/box/{place}", exist_ok=True)
    for number, library in enumerate(libraries):
        boxed += ["--ro-bind", library, f"{box}/host/{number}"]
    for path in (settings["packages"], *(path.removeprefix("/usr/") for path in settings["hidden"] if settings["prefix"] == "/usr")):
        if os.path.isdir(f"{shared}/python/{path}"):  # the host's own packages are not for reading
            boxed += ["--ro-bind", f"{shared}/empty", f"{box}/python/{path}"]
    with open(f"{shared}/{name}/image.json") as told, open(f"{folder}/box/environment", "w") as file:
        variables = shell.image_environment(json.load(told)["environment"])
        file.write("\0".join(f"{key}={value}" for key, value in variables.items()))
    places = [f"{box}/host/{number}" for number in range(len(libraries))]
    started = f"{places[libraries.index(os.path.dirname(loader))]}/{os.path.basename(loader)}"
    paths = ":".join((*places, f"{box}/python/lib"))
    program = [started, "--library-path", paths, f"{box}/python/bin/{settings['python']}", "-I", "-S"]
    return Interior(files, boxed, program, ("/tmp", "/var/tmp"), mounted)


def _with_places(root: str, paths: Iterable[str], folder: str) -> tuple[str]:
    """The files of an image with folders at these paths besides, for others to be mounted at. The image itself stays as it is."""
    for path in paths:
        names = path.split("/")
        for above in ("/".join(names[:count]) for count in range(2, len(names) + 1)):
            if os.path.islink(root + above) or (os.path.exists(root + above) and not os.path.isdir(root + above)):
                raise ValueError(f"has a link or a file at {above}, where sandbox.folders wants a folder for {path}")
        os.makedirs(f"{folder}/places{path}", exist_ok=True)
    os.mkdir(f"{folder}/root")
    flags = system.RDONLY | system.NOSUID | system.NODEV
    system.mount("image", f"{folder}/root", "overlay", flags, f"lowerdir={folder}/places:{root},userxattr")
    return (f"{folder}/root",)


def _loader(prefix: str) -> tuple[str, list[str]]:
    """The loader that this very process was started by, and the folders that its libraries came from, the interpreter's own apart."""
    with open("/proc/self/maps") as maps:
        mapped = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line}
    own = f"{prefix}/lib/python" if prefix == "/usr" else f"{prefix}/"
    outside = sorted(path for path in mapped if not path.startswith(own))
    loaders = [path for path in outside if os.path.basename(path).startswith(("ld-", "ld."))]
    if not loaders:
        raise ValueError("needs a Python that a dynamic loader starts, and the one of this host is static")
    return loaders[0], sorted({os.path.dirname(path) for path in outside})
