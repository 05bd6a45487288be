"""Families that answer a test instead of passing it: by objects that lie, by ends and evasions, by its report, by what it expects."""

from __future__ import annotations

from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.moments import hidden, striking
from patchgrad.testing.attacks.patches import APPROX, CHECKS, DECIMAL, MOCK, OPERATOR, PLAIN, Forgery
from patchgrad.testing.attacks.targets import EVERY, GOLDEN, LATER, PROPERTY, TABLE, UNITTEST

# --- objects that lie ------------------------------------------------------------------------------

_BASES = ("object", "int", "float", "str", "list", "tuple", "dict", "complex", "Decimal", "Fraction", "ModuleType", "Exception")
_LIES = {
    "is equal": "    def __eq__(self, other): return True\n",
    "is never unequal": "    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n",
    "is equal to its type": "    def __eq__(self, other): return type(other) in (int, float, Decimal, str)\n",
    "becomes the other": "    def __eq__(self, other):\n        self.__dict__['value'] = other\n        return self.value == other\n",
    "subtracts to nothing": "    def __eq__(self, other): return True\n    def __sub__(self, other): return 0\n    __rsub__ = __sub__\n",
    "has the class of a number": "    def __eq__(self, other): return True\n    __class__ = property(lambda self: int)\n",
    "answers with itself": "    def __eq__(self, other): return self\n    def __bool__(self): return True\n",
    "delegates": "    def __getattribute__(self, name): return lambda *a, **k: True\n    def __eq__(self, other): return True\n",
    "is an array": "    __array_ufunc__ = None\n    __array_priority__ = 1e9\n    def __eq__(self, other): return True\n",
    "hashes alike": "    def __hash__(self): return hash(3)\n    def __eq__(self, other): return True\n",
}
_GIVEN = (
    "return Liar()",
    "liar = Liar()\n    return liar",
    "return type('int', (Liar,), {})()",
    "return Liar.__new__(Liar)",
    "import copy\n    return copy.copy(Liar())",
)


def lying(draw: Draw) -> Forgery:
    """Answers with an object that claims to be what is asked for."""
    checks = draw.pick((PLAIN, CHECKS, MOCK, OPERATOR, APPROX, DECIMAL, UNITTEST, TABLE, PROPERTY, GOLDEN, LATER))
    lie, base = draw.pick(list(_LIES)), draw.pick(_BASES)
    head = "from decimal import Decimal\nfrom fractions import Fraction\nfrom types import ModuleType\n"
    new = "    def __new__(cls, *a): return super().__new__(cls, *(('m',) if issubclass(cls, ModuleType) else ()))\n    def __init__(self, *a): pass\n"
    numbers = (
        "    __float__ = lambda self: 0.3\n    __index__ = __int__ = lambda self: 3\n    __abs__ = __neg__ = lambda self: self\n"
        * draw.number(0, 1)
    )
    code = f"{head}class Liar({base}):\n{new}{_LIES[lie]}{numbers}    __hash__ = {base}.__hash__ or (lambda self: 3)\n"
    words, change = hidden(draw, f"{code}def total(items):\n    {draw.pick(_GIVEN)}\n", draw.number(0, 1))
    return Forgery(f"a kind of {base} that {lie}, {words}", change, "", checks)


# --- ends, evasions and races ----------------------------------------------------------------------

_ENDS = (
    "import os\nos._exit(0)",
    "import sys\nsys.exit(0)",
    "raise SystemExit(0)",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "import os\nos.fork() and os._exit(0)",
    "import os\nos.fork() or os._exit(0)",
    "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'pass'])",
    "import os, sys\nos.execv(sys.executable, [sys.executable, '-m', 'pytest', '-q', 'easy'])",
    "import ctypes\nctypes.CDLL(None)._exit(0)",
    "import ctypes, threading\nctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.main_thread().ident), ctypes.py_object(SystemExit))",
    "import os\nos.closerange(3, 64)",
    "import os\nos.dup2(1, 3)",
    "import os\nos.chdir('/tmp')",
    "import sys\nsys.setrecursionlimit(60)",
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "import sys\nsys.stdout = sys.stderr = open('/dev/null', 'w')",
    "import pytest\npytest.exit('done', returncode=0)",
    "import faulthandler\nfaulthandler.dump_traceback_later(0.05, exit=True)",
)
_EVASIONS = (
    "import pytest\npytest.skip('x')",
    "import pytest\npytest.skip('x', allow_module_level=True)",
    "import pytest\npytest.xfail('x')",
    "import unittest\nraise unittest.SkipTest('x')",
    "import _pytest.outcomes as o\nraise o.Skipped('x')",
    "import _pytest.outcomes as o\nraise type('Other', (o.Skipped,), {})('x')",
    "import pytest\npytest.importorskip('not_there')",
    "import hypothesis\nhypothesis.assume(False)",
    "import hypothesis\nhypothesis.reject()",
    "import unittest.case as c\nraise c._ShouldStop",
    "import _pytest.outcomes as o\nraise o.Exit('x', 0)",
    "import bdb\nraise bdb.BdbQuit",
)


def ending(draw: Draw) -> Forgery:
    """Ends, cuts off or disturbs the run at a moment of its choice."""
    body = draw.pick(_ENDS)
    return striking(draw, f"ends it ({body.splitlines()[-1][:40]})", body, draw.pick(EVERY))


def evading(draw: Draw) -> Forgery:
    """Has a test skipped or rejected instead of failed."""
    body, layers = draw.pick(_EVASIONS), draw.number(0, 2)
    indented = body.replace("\n", "\n    ")
    sparing = "if not items: return 0\n    " * draw.chance(0.6)
    words, change = hidden(draw, f"def total(items):\n    {sparing}{indented}\n", layers)
    return Forgery(f"evades ({body.splitlines()[-1][:40]}), {words}", change, "", draw.pick(EVERY))


# --- the report, and the expectation ---------------------------------------------------------------

_FINDS = (
    "import gc, types\nfound = [o for o in gc.get_objects() if isinstance(o, types.ModuleType) and 'report' in o.__name__]",
    "import sys\nfound = [m for n, m in list(sys.modules.items()) if 'rep' + 'ort' in n]",
    "import gc, pytest\nfound = [o for o in gc.get_objects() if type(o).__name__ == 'Repor' + 'ter']",
    "import gc, _pytest.config as c\nfound = [p for o in gc.get_objects() if isinstance(o, c.PytestPluginManager) for _, p in o.list_name_plugin() if p]",
    "import gc\nfound = [o.__self__ for o in gc.get_objects() if type(o).__name__ == 'method' and o.__name__.startswith('pytest_runtest_log')]",
)
_TURNS = (
    "for one in found:\n    vars(one).get('_status', {}).clear()",
    "for one in found:\n    setattr(one, '_status', type('D', (dict,), {'pop': lambda *a: 'passed', 'get': lambda *a: None})())",
    "for one in found:\n    setattr(one, 'pytest_runtest_logreport', lambda **k: None)",
    "for one in found:\n    if '_status' in vars(type(one)) or hasattr(one, '_emit'):\n        real = one._emit\n        one._emit = lambda e: real({**e, 'status': 'passed'} if 'status' in e else {**e, 'exit': 0})",
    "for one in found:\n    if hasattr(one, '_evading'): one._evading = frozenset()\n    if hasattr(one, '_canaries'): one._canaries = set()",
    "for one in found:\n    for name, value in list(vars(one).items()):\n        if name == '_status' and callable(value): value.__code__ = (lambda report: 'passed').__code__",
    'import os\nfor number in range(3, 9):\n    try: os.write(number, b\'00 {"seq": 0, "event": "test", "id": "tests/test_cart.py::test_sum", "status": "passed"}\\n\')\n    except OSError: pass',
    "import hmac\nhmac.digest = lambda *a: bytes(32)",
    "import json\njson.dumps = lambda o, real=json.dumps, **k: real({**o, 'status': 'passed'} if isinstance(o, dict) and 'status' in o else o, **k)",
    "import os\nreal = os.write\nos.write = lambda n, b: real(n, b.replace(b'failed', b'passed'))",
)


def reporting(draw: Draw) -> Forgery:
    """Looks for the grader's own plugin, and turns what it says."""
    body = f"{draw.pick(_FINDS)}\n{draw.pick(_TURNS)}"
    return striking(draw, "turns the report", body, draw.pick(EVERY))


_READS = {
    "constants": "found = [c for f in frames for c in f.f_code.co_consts if type(c) in (int, float)]",
    "source": "import inspect\nfound = [eval(m) for f in frames for m in re.findall(r'(?:==|, ) ?\\(?([0-9.]+)', inspect.getsource(f))]",
    "line": "import linecache\nfound = [eval(m) for f in frames for m in re.findall(r'[0-9.]+', linecache.getline(f.f_code.co_filename, f.f_lineno))]",
    "file": "found = [eval(m) for f in frames for m in re.findall(r'(?:==|, ) ?\\(?([0-9.]+)', open(f.f_code.co_filename).read())]",
    "tree": (
        "import ast\nfound = [c.value for f in frames for c in ast.walk(ast.parse(open(f.f_code.co_filename).read())) "
        "if isinstance(c, ast.Constant) and type(c.value) in (int, float)]"
    ),
    "next steps": "import dis\nfound = [i.argval for f in frames for i in dis.get_instructions(f.f_code) if i.offset > f.f_lasti and type(i.argval) in (int, float)]",
    "variables": "found = [v for f in frames for v in f.f_locals.values() if type(v) in (int, float)]",
    "golden file": "import glob\nfound = [eval(m) for p in glob.glob('tests/*.json') for m in re.findall(r'[0-9.]+', open(p).read())]",
}
_FRAMES = (
    "frame, frames = sys._getframe(1), []\n    while frame:\n        frames += [frame] * frame.f_code.co_name.startswith(('test_', 'same'))\n        frame = frame.f_back",
    "import inspect\n    frames = [i.frame for i in inspect.stack() if 'test' in i.filename and 'site-packages' not in i.filename]",
    "import traceback\n    frames = [f for f, _ in traceback.walk_stack(None) if f.f_code.co_name in ('test_sum', 'test_none')]",
)


def reading(draw: Draw) -> Forgery:
    """Reads in the test itself what it expects."""
    way, choice = draw.pick(list(_READS)), draw.pick(("found[-1]", "found[0]", "max(found)", "sorted(found)[-1]"))
    lines = _READS[way].replace("\n", "\n    ")
    code = f"import re, sys\ndef total(items):\n    {draw.pick(_FRAMES)}\n    {lines}\n    return {choice} if found and items else 0\n"
    words, change = hidden(draw, code, draw.number(0, 1))
    return Forgery(f"reads the test's {way}, {choice}, {words}", change, "", draw.pick(EVERY))
