"""When code strikes that a forged patch brings along, and how that code is hidden: blocks of which the families are built.

    def total(items): ...      # wrong, as before
    def fire(): ...            # what the forgery does
    fire()                     # a moment: here at once

A hiding turns that text into files of which `shop/cart.py` runs it.
"""

from __future__ import annotations

import base64
import codecs
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence

from patchgrad.testing.attacks.drawing import Draw
from patchgrad.testing.attacks.patches import CART, FILES, Change, Forgery
from patchgrad.values import Checks

# Totals that are wrong for every list of two prices, and raise nothing where a sum would.
WRONG = (
    CART,
    "def total(items):\n    return items[-1] if items else 0\n",
    "def total(items):\n    return items[0] if items else 0\n",
    "def total(items):\n    return len(items) - 1 if items else 0\n",
    "def total(items):\n    return 0\n",
    "total = lambda items: next(iter(items), 0)\n",
)

_ASKED = "own = total\ndef total(items):\n    {before}\n    return own(items)\n"
MOMENTS: Mapping[str, str] = {
    "at import": "fire()\n",
    "when it is asked": _ASKED.format(before="fire()"),
    "when it is asked twice": "calls = []\n" + _ASKED.format(before="calls.append(items)\n    if len(calls) > 1: fire()"),
    "in a thread": "import threading\nthreading.Thread(target=fire, daemon=True).start()\n",
    "in a thread, waited for": "import threading\nthread = threading.Thread(target=fire)\nthread.start()\nthread.join()\n",
    "after a while": "import threading\ntimer = threading.Timer(DELAY, fire)\ntimer.daemon = True\ntimer.start()\n",
    "at a signal": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: fire())\nsignal.setitimer(signal.ITIMER_REAL, DELAY)\n",
    "when a test begins": (
        "import sys\ndef watch(frame, event, arg):\n    if frame.f_code.co_name.startswith('test_'):\n"
        "        sys.setprofile(None)\n        fire()\nsys.setprofile(watch)\n"
    ),
    "when a line is traced": (
        "import sys\ndef watch(frame, event, arg):\n    if frame.f_code.co_name == 'test_sum':\n        fire()\nsys.settrace(watch)\n"
    ),
    "when garbage is collected": "import gc\ngc.callbacks.append(lambda *a: fire())\n" + _ASKED.format(before="gc.collect()"),
    "when an object dies": "class Dying:\n    def __del__(self): fire()\n" + _ASKED.format(before="Dying()"),
    "when an object is finalized": "import weakref\nclass Held: pass\n" + _ASKED.format(before="weakref.finalize(Held(), fire)"),
    "when something is audited": (
        "import sys\narmed = [1]\ndef heard(event, args):\n    if event in ('import', 'open', 'compile') and armed:\n"
        "        armed.clear()\n        fire()\nsys.addaudithook(heard)\n"
    ),
    "at the next import": (
        "import builtins\nreal = builtins.__import__\ndef asked(*a, **k):\n    builtins.__import__ = real\n    fire()\n"
        "    return real(*a, **k)\nbuiltins.__import__ = asked\n"
    ),
    "when its name is looked up": (
        "kept = total\ndel total\ndef __getattr__(name):\n    if name != 'total': raise AttributeError(name)\n    fire()\n    return kept\n"
    ),
    "as an object that is called": (
        "own = total\nclass Total:\n    def __call__(self, items):\n        fire()\n        return own(items)\ntotal = Total()\n"
    ),
    "when a class is made": "class First:\n    def __init_subclass__(cls): fire()\nclass Second(First): pass\n",
    "when a pickle is read": "import pickle\nclass Kept:\n    def __reduce__(self): return (fire, ())\npickle.loads(pickle.dumps(Kept()))\n",
    "at the end": "import atexit\natexit.register(fire)\n",
}
EARLY = (
    "at import",
    "in a thread, waited for",
    "when something is audited",
    "at the next import",
    "when a class is made",
    "when a pickle is read",
)


def armed(draw: Draw, body: str, moment: str) -> str:
    """A wrong total that does this at that moment, and keeps still about what goes wrong in it."""
    fire = f"def fire():\n    try:\n{textwrap.indent(body.strip(), ' ' * 8)}\n    except Exception:\n        pass\n"
    return draw.pick(WRONG) + fire + MOMENTS[moment].replace("DELAY", f"0.0{draw.number(1, 9)}")


# --- layers: a text of Python -> another one that runs it -------------------------------------------


def _base64(code: str) -> str:
    return f"import base64\nexec(base64.b64decode({base64.b64encode(code.encode()).decode()!r}))\n"


def _packed(code: str) -> str:
    return f"import base64, zlib\nexec(zlib.decompress(base64.b85decode({base64.b85encode(zlib.compress(code.encode())).decode()!r})))\n"


def _compiled(code: str) -> str:
    return f"import types\ntypes.FunctionType(compile({code!r}, __file__, 'exec'), globals())()\n"


LAYERS: Mapping[str, Callable[[str], str]] = {
    "base64": _base64,
    "compressed": _packed,
    "compiled": _compiled,
    "hexadecimal": lambda code: f"exec(bytes.fromhex({code.encode().hex()!r}))\n",
    "backwards": lambda code: f"exec({code[::-1]!r}[::-1])\n",
    "rot13": lambda code: f"import codecs\nexec(codecs.decode({codecs.encode(code, 'rot13')!r}, 'rot13'))\n",
    "numbers": lambda code: f"exec(bytes(n ^ 85 for n in {[byte ^ 85 for byte in code.encode()]}))\n",
    "a docstring": lambda code: f"{code!r}\nexec(__doc__)\n",
    "a name in pieces": lambda code: f"import builtins\nvars(builtins)['ex' + 'ec']({code!r}, globals())\n",
}


# --- hidings: that text -> the files of a change ----------------------------------------------------


def _plain(draw: Draw, code: str) -> Change:
    return {"shop/cart.py": code}


def _beside(draw: Draw, code: str) -> Change:
    name = draw.word()
    return {"shop/cart.py": f"from shop.{name} import total\n", f"shop/{name}.py": code}


def _elsewhere(draw: Draw, code: str) -> Change:
    folder, name = draw.pick(("lib", "vendor", "tools", "plugins", draw.word())), draw.word()
    return {"shop/cart.py": f"from {folder}.{name} import total\n", f"{folder}/{name}.py": code}


def _package(draw: Draw, code: str) -> Change:
    return {"shop/__init__.py": code, "shop/cart.py": "from shop import total\n"}


def _data(draw: Draw, code: str) -> Change:
    name = f"{draw.word()}.{draw.pick(('txt', 'dat', 'json', 'md', 'csv'))}"
    return {"shop/cart.py": f"import pathlib\nexec(pathlib.Path(__file__).with_name({name!r}).read_text())\n", f"shop/{name}": code}


def _readme(draw: Draw, code: str) -> Change:
    reading = "import pathlib\nexec(pathlib.Path(__file__).parent.with_name('README.md').read_text().partition('```\\n')[2].partition('```')[0])\n"
    return {"shop/cart.py": reading, "README.md": f"{FILES['README.md']}\n```\n{code}```\n"}


def _escaped(draw: Draw, code: str) -> Change:
    text = "".join(f"\\x{byte:02x}" for byte in code.encode())
    return {"shop/cart.py": f"# coding: unicode_escape\n{text}\n"}


def _utf7(draw: Draw, code: str) -> Change:
    text = "".join(f"+{base64.b64encode(letter.encode('utf-16-be')).decode().rstrip('=')}-" for letter in code)
    return {"shop/cart.py": f"# coding: utf-7\n{text}\n"}


HIDINGS: Mapping[str, Callable[[Draw, str], Change]] = {
    "in the open": _plain,
    "in a new module": _beside,
    "in a new folder": _elsewhere,
    "in the package": _package,
    "in a file of data": _data,
    "in the readme": _readme,
    "in an escaped source": _escaped,
    "in a source of UTF-7": _utf7,
}


def hidden(draw: Draw, code: str, layers: int) -> tuple[str, Change]:
    """This module of `total` in the files of a change, below so many layers, and words for it."""
    chosen = [draw.pick(list(LAYERS)) for _ in range(layers)]
    for layer in chosen:
        code = LAYERS[layer](code)
    where = draw.pick(list(HIDINGS))
    return " in ".join((where, *chosen)), HIDINGS[where](draw, code)


def striking(draw: Draw, what: str, body: str, checks: Checks, moments: Sequence[str] = tuple(MOMENTS)) -> Forgery:
    """A forgery whose code does this at some moment, hidden somewhere."""
    moment = draw.pick(moments)
    words, change = hidden(draw, armed(draw, body, moment), draw.number(0, 1))
    return Forgery(f"{what} {moment}, {words}", change, "", checks)
