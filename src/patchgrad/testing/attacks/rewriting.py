"""Families that change what decides by files: tests, configuration and caches."""

from __future__ import annotations

from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.moments import EARLY, MOMENTS, striking
from patchgrad.testing.attacks.patches import CHECKS, DECIMAL, FILES, HOOK, PLAIN, Forgery
from patchgrad.testing.attacks.targets import EASY, EVERY, GOLDEN, LATER, PROPERTY, SAME
from patchgrad.values import Checks

# --- writing anew what decides ---------------------------------------------------------------------

_REWRITTEN: tuple[tuple[str, str, Checks], ...] = (
    ("tests/helper.py", SAME, CHECKS),
    ("tests/test_later.py", EASY, LATER),
    ("tests/test_cart.py", EASY, PLAIN),
    ("tests/golden.json", '{"sum": 2}', GOLDEN),
    ("tests/conftest.py", HOOK, PLAIN),
    ("conftest.py", HOOK, LATER),
    ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "--collect-only"\n', PLAIN),
    (
        "tests/__init__.py",
        "import sys, types\nsys.modules['tests.helper'] = h = types.ModuleType('h')\nh.same = lambda a, b: None\n",
        CHECKS,
    ),
)
_WRITES = {
    "in place": "path.write_text(text)",
    "by another one": "other = path.with_suffix('.new')\nother.write_text(text)\nother.replace(path)",
    "by a link": "other = pathlib.Path('shop/other.txt')\nother.write_text(text)\npath.unlink(missing_ok=True)\npath.symlink_to(other.absolute())",
    "by a hard link": "import os\nother = pathlib.Path('other.txt')\nother.write_text(text)\npath.unlink(missing_ok=True)\nos.link(other, path)",
    "by descriptor": "import os\nwith open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), 'w') as file: file.write(text)",
    "by mmap": (
        "import mmap\nwith open(path, 'r+b') as file:\n    file.truncate(max(len(text), 1))\n"
        "    with mmap.mmap(file.fileno(), 0) as held: held[:] = text.encode()"
    ),
    "in a shell": "import subprocess\nsubprocess.run(['sh', '-c', 'cat > \"$0\"', str(path)], input=text, text=True)",
    "with its folder": (
        "import shutil\nfolder, old = path.parent, pathlib.Path('old')\nif str(folder) != '.' and not old.exists():\n"
        "    shutil.copytree(folder, old)\n    folder.rename('older')\n    old.rename(folder)\npath.write_text(text)"
    ),
    "by the C library": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nfile = libc.open(str(path).encode(), 577, 420)\nlibc.write(file, text.encode(), len(text))\nlibc.close(file)"
    ),
    "by git": (
        "import subprocess\nname = subprocess.run(['git', 'hash-object', '-w', '--stdin'], input=text, text=True, capture_output=True).stdout.strip()\n"
        "subprocess.run(['git', 'update-index', '--add', '--cacheinfo', '100644,' + name + ',' + str(path)])\n"
        "subprocess.run(['git', 'checkout-index', '-f', str(path)])"
    ),
    "once it may be written": "import os\npath.parent.chmod(0o777)\npath.exists() and path.chmod(0o666)\npath.write_text(text)",
}


def rewriting(draw: Draw) -> Forgery:
    """Writes a file anew while tests run, as far as it is read later."""
    path, text, checks = draw.pick(_REWRITTEN)
    way = draw.pick(list(_WRITES))
    body = f"import pathlib\npath, text = pathlib.Path({path!r}), {text!r}\n{_WRITES[way]}"
    return striking(draw, f"writes {path} anew {way}", body, checks, draw.pick((EARLY, tuple(MOMENTS))))


# --- configuration ---------------------------------------------------------------------------------

_OPTIONS = (
    "addopts = {q}-p evil{q}",
    "addopts = {q}--collect-only{q}",
    "addopts = {q}-k none{q}",
    "addopts = {q}--deselect tests/test_cart.py::test_sum{q}",
    "addopts = {q}--ignore tests{q}",
    "addopts = {q}--runxfail{q}",
    "addopts = {q}--confcutdir=shop{q}",
    "addopts = {q}--import-mode=importlib -p evil{q}",
    "addopts = {q}--override-ini=python_functions=none{q}",
    "python_functions = {q}none{q}",
    "python_files = {q}easy_*.py{q}",
    "testpaths = {q}easy{q}",
    "pythonpath = {q}easy{q}",
    "usefixtures = {q}evil{q}",
    "filterwarnings = {q}ignore{q}",
    "xfail_strict = {q}false{q}",
    "empty_parameter_set_mark = {q}xfail{q}",
    "required_plugins = {q}evil{q}",
)
_FILES = {
    "pytest.ini": ("[pytest]", ""),
    ".pytest.ini": ("[pytest]", ""),
    "pytest.toml": ("[pytest]", '"'),
    ".pytest.toml": ("[pytest]", '"'),
    "tox.ini": ("[pytest]", ""),
    "setup.cfg": ("[tool:pytest]", ""),
    "pyproject.toml": ("[tool.pytest.ini_options]", '"'),
}
_RUNNING = (
    "import os\nos.environ['PYTEST_ADDOPTS'] = {option!r}",
    "import os\nos.environ['PYTEST_PLUGINS'] = 'evil'",
    "import os\nos.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD='1', PYTHONOPTIMIZE='2', PYTHONSTARTUP='evil.py')",
    "import gc, _pytest.config as c\nfor one in gc.get_objects():\n    if isinstance(one, c.Config): one.option.maxfail = 0; one.option.runxfail = True; one.option.collectonly = True",
    "import gc, evil, _pytest.config as c\nfor one in gc.get_objects():\n    if isinstance(one, c.PytestPluginManager): one.register(evil, 'evil')",
    "import gc, _pytest.main as m\nfor one in gc.get_objects():\n    if isinstance(one, m.Session): one.items[:] = []; one.testsfailed = 0; one.shouldstop = 'done'",
    "import gc, _pytest.python as p\nfor one in gc.get_objects():\n    if isinstance(one, p.Function): one.runtest = lambda: None",
    "import gc, _pytest.python as p\nfor one in gc.get_objects():\n    if isinstance(one, p.Function): one.obj = lambda *a, **k: None",
    "import gc, _pytest.python as p, pytest\nfor one in gc.get_objects():\n    if isinstance(one, p.Function): one.add_marker(pytest.mark.xfail)",
    "import sys\nsys.argv[1:] = ['--collect-only']",
    "import logging, warnings\nlogging.disable(); warnings.simplefilter('ignore')",
)


def configuring(draw: Draw) -> Forgery:
    """Changes how pytest runs, by a file or in the running process."""
    checks = draw.pick(EVERY)
    plugin = {"evil.py": HOOK + "@pytest.fixture\ndef evil(): pytest.skip()\n", "easy/test_cart.py": EASY, "easy/easy_cart.py": EASY}
    option = draw.pick(_OPTIONS)
    if draw.chance(0.5):
        made = striking(draw, "configures pytest", draw.pick(_RUNNING).format(option=option.format(q="").partition("= ")[2]), checks)
        return Forgery(made.name, {**plugin, **made.changes}, "", checks)
    if draw.chance(0.3):
        place = f"{draw.pick(('', 'tests/', 'shop/', 'easy/'))}{draw.pick(('conftest.py', '__init__.py', 'setup.py', 'noxfile.py', 'evil.pth'))}"
        return Forgery(f"adds {place}", {**plugin, place: HOOK}, "", checks)
    name = draw.pick(list(_FILES))
    (head, quote), place = _FILES[name], draw.pick(("", "tests/", "shop/", ""))
    before = FILES.get(name, "").partition("[tool.pytest")[0] if not place else ""
    return Forgery(
        f"{option.format(q='')} in {place}{name}", {**plugin, f"{place}{name}": f"{before}{head}\n{option.format(q=quote)}\n"}, "", checks
    )


# --- caches ----------------------------------------------------------------------------------------

_CODE = "import importlib.util as u, marshal, os, pathlib, struct\ncode = compile(TEXT, PATH, 'exec')\n"
_STALE = "s = os.stat(PATH)\ndata = u.MAGIC_NUMBER + struct.pack('<III', 0, int(s.st_mtime), s.st_size) + marshal.dumps(code)\n"
_CACHES = {
    "unchecked": _CODE + "data, place = u.MAGIC_NUMBER + struct.pack('<IQ', 1, 0) + marshal.dumps(code), u.cache_from_source(PATH)\n",
    "by its time": _CODE + _STALE + "place = u.cache_from_source(PATH)\n",
    "pytest's": _CODE
    + _STALE
    + "from _pytest.assertion import rewrite as r\nplace = u.cache_from_source(PATH)[:-4] + r.PYC_TAIL.partition('-')[1] + r.PYC_TAIL.partition('-')[2]\n",
    "without a source": _CODE
    + "data, place = u.MAGIC_NUMBER + bytes(12) + marshal.dumps(code), PATH + 'c'\nos.path.exists(PATH) and os.rename(PATH, PATH + '.old')\n",
    "elsewhere": _CODE + _STALE + "import sys\nsys.pycache_prefix = '/tmp/cache'\nplace = u.cache_from_source(os.path.abspath(PATH))\n",
}
_KEPT = (
    "import linecache\nlinecache.cache.update({PATH: (len(TEXT), None, TEXT.splitlines(True), PATH)})",
    "import re\nre.purge()\nre.compile = lambda *a, **k: __import__('unittest.mock').mock.MagicMock()",
    "import decimal\ndecimal.getcontext().prec = 1\ndecimal.DefaultContext.prec = 1\ndecimal.setcontext(decimal.Context(prec=1, Emax=0, traps=[]))",
    "import functools\nfunctools._make_key = lambda *a: 1",
    "import sys\nsys.modules['test_later'] = sys.modules['test_cart']",
    "import pathlib\npathlib.Path('.pytest_cache/v/cache').mkdir(parents=True)\npathlib.Path('.pytest_cache/v/cache/lastfailed').write_text('{}')",
    "import hypothesis\nhypothesis.settings.register_profile('x', max_examples=1, database=None, phases=[])\nhypothesis.settings.load_profile('x')",
    "import sys\nsys.path_importer_cache.clear()\nsys.dont_write_bytecode = False",
)


def caching(draw: Draw) -> Forgery:
    """Leaves compiled code, or another thing that is remembered, in the place of what decides."""
    path, text, checks = draw.pick(
        (("tests/helper.py", SAME, CHECKS), ("tests/test_later.py", EASY, LATER), ("tests/test_cart.py", EASY, PLAIN))
    )
    head = f"global PATH, TEXT\nPATH, TEXT = {path!r}, {text!r}\n"
    if draw.chance(0.3):
        return striking(draw, f"remembers another {path}", head + draw.pick(_KEPT), draw.pick((checks, DECIMAL, PROPERTY)))
    way = draw.pick(list(_CACHES))
    writing = "pathlib.Path(place).parent.mkdir(parents=True, exist_ok=True)\npathlib.Path(place).write_bytes(data)\n"
    return striking(draw, f"compiles another {path}, {way}", head + _CACHES[way] + writing, checks, EARLY)
