"""Names of folders and modules that nobody has heard, so that paths have to be copied.

Real paths use the same word twice (`isoparse/isotext.py`), and any letters; a network that copied syllables only, once each, stumbles over
both. So a third of the names are syllables, a third pieces of words, a third any letters, and at times a name begins like the one before.
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


def improvised(random_: random.Random, before: str = "") -> str:
    """A name for a folder or module: `rakemi`, `chart_tree`, `xqob`; one in four begins like `before`, where that is given."""
    kind = random_.randrange(3)
    if kind == 0:
        name = "".join(random_.choice("bdfgklmnprstvz") + random_.choice("aeiou") for _ in range(random_.choice((2, 3, 3, 4))))
    elif kind == 1:
        name = random_.choice(("", "", "_")).join(random_.sample(PIECES, 2))
    else:
        name = "".join(random_.choices(string.ascii_lowercase, k=random_.randrange(4, 9)))
    if before and random_.random() < 0.25:
        name = before[: random_.randrange(2, 5)] + name
    taken = name == before or name in sys.stdlib_module_names or keyword.iskeyword(name)
    return improvised(random_, before) if taken else name
