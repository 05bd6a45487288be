"""Names of folders and modules that nobody has heard, so that they have to be copied: syllables, pieces of words, any letters alike.

A network that copied nothing but syllables would stumble over the first real name, in tokens that it never had to say.
"""

from __future__ import annotations

import keyword
import random
import string
import sys

WORDS = (
    "base cache calc chart cli code color conf conv core count data date dict diff doc draw edit enum error event field file filter flow "
    "format frame game geo graph grid group hash help html http image index info input item json kind lex line link list load lock log "
    "mail map mark math menu meta mod name net node note num page pair parse part path play plan pool port print proc query queue rank "
    "read rule scan score set shape shop show sort space stat store stream style sync table tag task term text tick time tool "
    "trace tree type unit url user util value view web word work wrap xml zone"
)
PIECES = WORDS.split()


def improvised(random_: random.Random) -> str:
    """A name for a folder or module: `rakemi`, `chart_tree`, `xqobw`."""
    kind = random_.randrange(3)
    if kind == 0:
        name = "".join(random_.choice("bdfgklmnprstvz") + random_.choice("aeiou") for _ in range(random_.choice((2, 3, 3, 4))))
    elif kind == 1:
        name = random_.choice(("", "", "_")).join(random_.sample(PIECES, 2))
    else:
        name = "".join(random_.choices(string.ascii_lowercase, k=random_.randrange(4, 9)))
    return improvised(random_) if name in sys.stdlib_module_names or keyword.iskeyword(name) else name


def gibberish(random_: random.Random) -> str:
    """A line that reads like the symptoms of real packages to one who knows no Python: `Tree.zone(4.71, 'xq') >= [logindex] raises`."""
    marks = ("(", ")", "[", "]", ".", ", ", " = ", " >= ", ": ", "'", '"', "=", "{", "}", "-", "_", "+", "/")
    parts = []
    for _ in range(random_.randrange(4, 25)):
        word = random_.choice((random_.choice(PIECES), improvised(random_), str(random_.randrange(10 ** random_.randrange(1, 5)))))
        parts += [random_.choice((word, word, word.capitalize(), word.upper())), random_.choice((" ", " ", random_.choice(marks)))]
    return "".join(parts)[:160]
