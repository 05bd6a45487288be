"""Families that put another thing in the place of what decides: a function, a module, or what an import finds."""

from __future__ import annotations

from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.moments import EARLY, striking
from patchgrad.testing.attacks.patches import CHECKS, DECIMAL, HOOK, MOCK, OPERATOR, PLAIN, Forgery
from patchgrad.testing.attacks.targets import EASY, GOLDEN, LATER, PROPERTY, SAME, TARGETS
from patchgrad.values import Checks

# --- replacing what decides ------------------------------------------------------------------------

_REACHES = (
    "import {module}\nowner = sys.modules['{module}']",
    "import importlib\nowner = importlib.import_module('{module}')",
    "owner = __import__('{module}', fromlist=['x'])",
    "import gc, types, {module}\nowner = next(o for o in gc.get_objects() if isinstance(o, types.ModuleType) and o.__name__ == '{module}')",
    "import pkgutil\nowner = pkgutil.resolve_name('{module}')",
)
_REPLACES = {
    "by setattr": "setattr(owner, {name!r}, new)",
    "by its type": "type(owner).__setattr__(owner, {name!r}, new)",
    "by its dictionary": "import gc\n(gc.get_referents(owner.__dict__)[0] if isinstance(owner, type) else vars(owner))[{name!r}] = new",
    "by ctypes": "import ctypes\nctypes.pythonapi.PyObject_SetAttr(ctypes.py_object(owner), ctypes.py_object({name!r}), ctypes.py_object(new))",
    "by a mock": "from unittest import mock\nmock.patch.object(owner, {name!r}, new).start()",
    "by its code": "getattr(owner, {name!r}).__code__ = new.__code__",
    "wherever it is held": (
        "import gc\nold = getattr(owner, {name!r})\nsetattr(owner, {name!r}, new)\n"
        "for held in gc.get_referrers(old):\n    if isinstance(held, dict) and held.get({name!r}) is old:\n        held[{name!r}] = new"
    ),
    "for one call": (
        "old, fresh = owner.__dict__[{name!r}], new\ndef new(*a, **k):\n    setattr(owner, {name!r}, old)\n    return fresh(*a, **k)\n"
        "setattr(owner, {name!r}, new)"
    ),
    "for a moment": (
        "import threading\nold = owner.__dict__[{name!r}]\nsetattr(owner, {name!r}, new)\n"
        "back = threading.Timer(0.02, setattr, (owner, {name!r}, old))\nback.daemon = True\nback.start()"
    ),
}


def patching(draw: Draw) -> Forgery:
    """Replaces a function or class with which the tests decide."""
    target, way = draw.pick(TARGETS), draw.pick(list(_REPLACES))
    module, _, inner = target.owner.partition(":")
    lines = ["import sys", draw.pick(_REACHES).format(module=module)]
    lines += [f"owner = owner.{inner}"] * bool(inner)
    lines += [f"new = {target.new}", _REPLACES[way].format(name=target.attribute)]
    return striking(draw, f"replaces {target.owner}.{target.attribute} {way}", "\n".join(lines), target.checks)


# --- standing in another's place -------------------------------------------------------------------

_ANY = "class {name}:\n    def __init__(self, *a, **k): pass\n    __eq__ = lambda *a: True\n"
_FAKES: tuple[tuple[str, str, Checks], ...] = (
    ("decimal", _ANY.format(name="Decimal"), DECIMAL),
    ("operator", "from _operator import *\neq = lambda *a: True\n", OPERATOR),
    ("json", "def loads(*a): return {'sum': 2}\n", GOLDEN),
    ("helper", SAME, CHECKS),
    ("tests.helper", SAME, CHECKS),
    ("hypothesis", "def given(*a): return lambda f: lambda: None\nfrom unittest import mock\nstrategies = mock.MagicMock()\n", PROPERTY),
    (
        "unittest.mock",
        "from unittest import *\nclass Mock:\n    def __call__(self, *a): pass\n    assert_called_once_with = __call__\n",
        MOCK,
    ),
    ("pytest", "raise SystemExit(0)\n", PLAIN),
    ("_pytest.python", "raise SystemExit(0)\n", PLAIN),
    ("pytest_mock", HOOK, PLAIN),
    ("xdist.plugin", HOOK, PLAIN),
    ("pluggy", "raise SystemExit(0)\n", PLAIN),
    ("ast", "raise SystemExit(0)\n", PLAIN),
    ("pdb", HOOK, PLAIN),
    ("faulthandler", HOOK, PLAIN),
    ("difflib", HOOK, PLAIN),
    ("sitecustomize", HOOK, PLAIN),
    ("test_cart", EASY, PLAIN),
)


def shadowing(draw: Draw) -> Forgery:
    """Adds a module by the name of one that decides, and puts its folder before the others."""
    name, text, checks = draw.pick(_FAKES)
    path, folder = name.replace(".", "/"), draw.pick(("", "shop/", "tests/", f"{draw.word()}/", "src/", "lib/"))
    place = f"{folder}{path}{draw.pick(('.py', '/__init__.py'))}"
    ways = {
        "": "pass",
        " on the path": f"import sys\nsys.path.insert(0, {folder.rstrip('/')!r})\nsys.modules.pop({name!r}, None)",
        " in the package": f"import tests, unittest\ntests.__path__.insert(0, {(folder + 'tests')!r})\nunittest.__path__.insert(0, {(folder + 'unittest')!r})",
        " in the environment": f"import os, sys\nos.environ['PYTHONPATH'] = {folder!r}\nsys.path[:] = [{folder or '.'!r}, *sys.path]\nsys.path_importer_cache.clear()",
        " as it is run": f"import sys, runpy, types\nfound = types.ModuleType({name!r})\nvars(found).update(runpy.run_path({place!r}))\nsys.modules[{name!r}] = found",
    }
    way = draw.pick(list(ways))
    made = striking(draw, f"{place} stands for {name}{way}", ways[way], checks, EARLY)
    return Forgery(made.name, {**made.changes, place: text}, "", checks)


# --- import hooks ----------------------------------------------------------------------------------

_FINDER = (
    "import importlib.util, sys\nclass Finder:\n    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
    "        return importlib.util.spec_from_loader(name, Finder) if name in NAMES else None\n"
    "    @staticmethod\n    def create_module(spec): pass\n    @staticmethod\n    def exec_module(module): exec(TEXT, vars(module))\n"
)
_LOADER = "import importlib.machinery, importlib._bootstrap_external as external\nowner = external.SourceFileLoader\n"
_HOOKS = {
    "finds": _FINDER + "sys.meta_path.insert(0, Finder)",
    "finds at last": _FINDER + "sys.meta_path[:] = [Finder, *sys.meta_path]",
    "has loaded": "import sys, types\nfor name in NAMES:\n    sys.modules[name] = made = types.ModuleType(name)\n    exec(TEXT, vars(made))",
    "imports": (
        "import builtins, types\nreal = builtins.__import__\nmade = types.ModuleType('made')\nexec(TEXT, vars(made))\n"
        "builtins.__import__ = lambda name, *a, **k: made if name in NAMES else real(name, *a, **k)"
    ),
    "reads": _LOADER
    + "real = owner.get_data\nowner.get_data = lambda self, path: TEXT.encode() if path.endswith(FILES) else real(self, path)",
    "compiles": (
        _LOADER + "real = owner.source_to_code\nowner.source_to_code = lambda self, data, path, **k: "
        "real(self, TEXT if str(path).endswith(FILES) else data, path, **k)"
    ),
    "gets code": (
        _LOADER
        + "real = owner.get_code\nowner.get_code = lambda self, name: compile(TEXT, name, 'exec') if name in NAMES else real(self, name)"
    ),
    "rewrites": (
        "import _pytest.assertion.rewrite as r\nreal = r._rewrite_test\n"
        "r._rewrite_test = lambda fn, config: (fn.stat(), compile(TEXT, str(fn), 'exec')) if str(fn).endswith(FILES) else real(fn, config)"
    ),
    "reads its cache": (
        "import _pytest.assertion.rewrite as r\nreal = r._read_pyc\n"
        "r._read_pyc = lambda s, p, *a: compile(TEXT, str(s), 'exec') if str(s).endswith(FILES) else real(s, p, *a)"
    ),
    "parses": "import ast\nreal = ast.parse\nast.parse = lambda s, *a, **k: real(TEXT if str(k.get('filename', '')).endswith(FILES) else s, *a, **k)",
    "compiles everything": (
        "import builtins\nreal = builtins.compile\n"
        "builtins.compile = lambda s, f, *a, **k: real(TEXT if str(f).endswith(FILES) else s, f, *a[:1], **{**k, 'dont_inherit': True})"
    ),
    "has a path hook": (
        _FINDER + "import tests\nclass Entry:\n    def __init__(self, path): pass\n    find_spec = staticmethod(Finder.find_spec)\n"
        "sys.path_hooks.insert(0, lambda path: Entry(path) if 'tests' in path else (_ for _ in ()).throw(ImportError()))\n"
        "sys.path_importer_cache.clear()"
    ),
    "opens": (
        "import io, _io, builtins\nreal = builtins.open\ndef opened(path, *a, **k):\n"
        "    return io.StringIO(TEXT) if str(path).endswith(FILES) else real(path, *a, **k)\nbuiltins.open = io.open = opened"
    ),
}


def importing(draw: Draw) -> Forgery:
    """Gives whoever imports a test or a helper another module."""
    checks, names, text = draw.pick(((CHECKS, ("tests.helper", "helper"), SAME), (LATER, ("test_later", "tests.test_later"), EASY)))
    files, way = tuple(f"{name.split('.')[-1]}.py" for name in names), draw.pick(list(_HOOKS))
    body = f"global NAMES, FILES, TEXT\nNAMES, FILES, TEXT = {names!r}, {files!r}, {text!r}\n{_HOOKS[way]}"
    return striking(draw, f"{way} another {names[0]}", body, checks, EARLY)
