"""What a commit says of itself, as a report for an agent: its text without who, where and which number, if that still says something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

SHORTEST = 15  # useful characters
_TRAILER = re.compile(
    r"^\s*((signed-off|co-authored|co-developed|reviewed|reported|suggested|tested|acked|approved|helped)[- ]by|cc|change-id|git-svn-id"
    r"|see[- ]also|fix(es|ed)?|close[sd]?|resolve[sd]?|refs?|references|issues?|bugs?|pr|pull request|thanks( to)?|authors?|date|merge[sd]?"
    r"|related( to)?|backport(s|ed)?( of)?|cherry[- ]picked from( commit)?|reviewers?|differential revision"
    r"|test plan|[a-z]+(-[a-z]+)*-(id|by|to))"
    r"\s*:.*$",
    re.IGNORECASE,
)
_CHORE = re.compile(
    r"^\s*[*+-]\s+((apply|address|incorporate|accept)\w*\b.*\b(suggestion|review|comment|feedback)|todo\b|wip\b|lint|typos?\b"
    r"|black\b|format|fix\w* (lint|typos?|flake8|style|formatting|tests?|ci)\b|merge\b"
    r"|(add|update|extend|improve|fix)\w*\b.*\b(tests?|coverage|cov|changelog)\b"
    r"|tests?\b|update\w* (docs?|readme|changelog)\b|cleanup\b|bump\b)",
    re.IGNORECASE,
)
_NUMBER = r"((#|\bgh-?|\b(issues?|bugs?|prs?|pull requests?|tickets?)\s*#?)\s*\d+)"
_NUMBERS = rf"{_NUMBER}(\s*(,|&|and|\+)\s*({_NUMBER}|\d+\b))*"
_WHY = r"((and|also|this|which|it|fix(es|ed|ing)?|close[sd]?|resolve[sd]?|see|refs?|references?|re|for|from|addresse?s|part of)\s+)*"
_ASIDE = re.compile(rf"\s*[(\[]\s*{_WHY}{_NUMBERS}\s*[)\]]", re.IGNORECASE)
_CLOSING = re.compile(rf"(^|[\s,;:.-]+){_WHY}{_NUMBERS}\s*[.!]?\s*$", re.IGNORECASE)
_EARLIER = re.compile(rf"\b(the|this|that|our)\s+{_NUMBERS}", re.IGNORECASE)
_INSIDE = re.compile(_NUMBERS, re.IGNORECASE)
_KINDS = "feat|feature|fix|bug|bugfix|hotfix|docs?|style|refactor|perf|tests?|build|ci|chore|revert|enh|maint|bf|rf|tst"
_PREFIX = re.compile(rf"^\s*(({_KINDS})(\([^)]*\))?!?\s*[:/]\s+|{_WHY}{_NUMBERS}\s*(--?|:)\s*)", re.IGNORECASE)
_GITMOJI = re.compile(r"^\s*:[a-z0-9_+-]+:\s*")
_URL = re.compile(r"<?\b(https?|ftp|git)://[^\s>)\]]+>?")
_PERSON = re.compile(
    r"\(?(\b(thanks|thx|kudos|credit|props)(\s+(to|goes to|for))?\s+|\b(reported|suggested|patch|contributed|by)\s+(by\s+)?)?(?<![\w.])"
    r"@(?!property|staticmethod|classmethod|overload|abstractmethod|cached_property|contextmanager|dataclass|pytest)[\w-]+(?![\w(.])\)?|<?[\w.+-]+@[\w-]+\.[\w.-]+>?",
    re.IGNORECASE,
)
_THANKS = re.compile(r"\(?\b(thanks|thx|kudos|props|patch (by|from)|reported by|contributed by)\b[^.\n]*\.?", re.IGNORECASE)
_CONTROL = re.compile(r" ?(?:\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f])+ ?")  # of a terminal, or of nobody
_SKIP = re.compile(r"\[(skip ci|ci skip|wip|no ci)\]", re.IGNORECASE)
_HASH = re.compile(r"\(?\b(in |commit |since |reverts? commit )?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b\)?")
_FILE = r"[\w./*-]*[\w*]\.(py|pyi|pyx|c|h|rst|md|txt|cfg|toml|ini|yml|yaml|json)"
_FILES = re.compile(rf"^\s*([*+-]\s*)?([MADR]\s+)?{_FILE}(\s*[,;&]?\s*(and\s+)?{_FILE})*\s*(:.*|\|.*)?$")
_MERGED = re.compile(r"^\s*(Merge (pull|branch|remote)|#\s|-{4,}$)")
_NAMES_TESTS = re.compile(r"\btest_\w+|\w+_test\.py\b|\b(pinned|covered|guarded|verified) by (\w+ ){0,2}tests?\b", re.IGNORECASE)
_NOTHING = frozenset(
    re.findall(
        r"\w+",
        """
    fix fixes fixed fixing bug bugs bugfix wip update updates updated updating test tests testing tested minor change
    changes changed small typo add adds added adding clean cleanup refactor refactored refactoring work working stuff more
    some merge merged the a an of for in to and with on is it this that from issue issues pr review comments address pass
    passing make makes code improve improved improvement improvements version release bump changelog tweak tweaks new
    initial commit support docs documentation lint style format formatting black ruff pep8 flake8 requested feedback
    suggestions squash fixup amend misc various few little
        """,
    )
)
"""Words that any commit may have."""


def cleaned(text: str) -> str:
    """The words of a commit that describe the matter: `"fix(slug): Keep dots (#12)\\n\\nSigned-off-by: A <a@b.c>"` -> `"Keep dots"`."""
    subject, *rest = _CONTROL.sub(" ", text.replace("\r\n", "\n")).strip().split("\n")
    lines = [_plain(_PREFIX.sub("", _GITMOJI.sub("", subject)))]
    for line in rest:
        if any(pattern.match(line) for pattern in (_TRAILER, _FILES, _CHORE, _MERGED)):
            continue
        plain = _plain(line)
        if plain.strip(" \t*+-.") or not line.strip():
            lines.append(plain)
    told = [line for number, line in enumerate(lines) if number == 0 or line.strip(" *+-.").lower() != lines[0].strip(" .").lower()]
    kept = re.sub(r"\n\s*([.,;:])(?=\s|$)", r"\1", "\n".join(told))
    whole = re.sub(r"\n{3,}", "\n\n", re.sub(r"(\n\s*){2,}(?=[*+-] )", "\n\n", _without_tests(kept))).strip(" \n\t-*:")
    return whole[:1].upper() + whole[1:]


def _without_tests(text: str) -> str:
    """The text without sentences that name tests: the agent does not see these."""
    blocks = re.split(r"(\n\s*\n|\n(?=\s*[*+-] ))", text)
    return "".join(
        block if not _NAMES_TESTS.search(block) else " ".join(s for s in re.split(r"(?<=[.!?])\s+", block) if not _NAMES_TESTS.search(s))
        for block in blocks
    )


def _plain(line: str) -> str:
    """A line without addresses, persons, hashes and numbers of issues; of a number within a sentence stays that there was an issue."""
    plain = line
    for pattern in (_URL, _SKIP, _ASIDE, _CLOSING, _THANKS, _PERSON, _HASH):
        plain = pattern.sub("", plain)
    plain = _INSIDE.sub("an earlier issue", _EARLIER.sub(r"\1 earlier", plain))
    if plain == line:
        return line.rstrip()
    plain = re.sub(r"\s\(\s*[,;]?\s*\)|\s\[\s*\](\(\s*\))?", "", plain).rstrip()
    if not line.rstrip().endswith(plain[-1:]):  # what stood at the end is gone
        plain = plain.rstrip(" \t-:;,")
    return re.sub(r"(?<=\S)[ \t]{2,}", " ", plain)


def says_something(text: str) -> bool:
    """Are there at least 15 letters and digits in words that not every commit has? Not in "Fix the tests", not in "wip"."""
    words = re.findall(r"\w+", text.lower())
    return sum(len(word) for word in words if word not in _NOTHING and not word.isdigit()) >= SHORTEST


def guessed(
    repaired: Mapping[str, tuple[bytes, bytes]], files: Mapping[str, bytes], tests: str, failures: Iterable[str], told: str
) -> list[str]:
    """Names that only the repair introduces, that the hidden tests use, and that no one is told: they could only be guessed.

    `repaired` maps a source to its text before and after, `files` is what the agent has, `tests` is the patch of the tests and `failures`
    are how they fail without the repair.
    """
    defined = {name for old, new in repaired.values() for name in _defined(new) - _defined(old)}
    words = {word for content in files.values() for word in re.findall(r"[A-Za-z_]\w*", content.decode(errors="replace"))}
    added = "\n".join(line[1:] for line in tests.split("\n") if line.startswith("+") and not line.startswith("+++"))
    introduced = {word for _, new in repaired.values() for word in re.findall(r"[A-Za-z_]\w*", new.decode(errors="replace"))}
    missing = {name for text in failures for name in _missing(text, files)} & introduced
    return sorted(((_used(added) & defined) - words | missing) - set(re.findall(r"[A-Za-z_]\w*", told)))


def _defined(content: bytes) -> set[str]:
    """Functions, classes, parameters, attributes and variables of a module that others can name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(content)) if _parses(content) else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    top = ast.parse(content).body if _parses(content) else []
    targets = [t for n in top for t in (n.targets if isinstance(n, ast.Assign) else [n.target] if isinstance(n, ast.AnnAssign) else [])]
    return found | {target.id for target in targets if isinstance(target, ast.Name)}


def _parses(content: bytes) -> bool:
    try:
        ast.parse(content)
    except (SyntaxError, ValueError):
        return False
    return True


def _used(added: str) -> set[str]:
    """Names that lines of tests reach for: `box.area`, `area(`, `area=`, `import area`; not every word of a text in them."""
    found = set(re.findall(r"\.([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*\(|[(,]\s*([A-Za-z_]\w*)\s*=(?!=)", added))
    imported = re.findall(r"^\s*(?:from\s+\S+\s+)?import\s+(.+)$", added, re.MULTILINE)
    return {name for group in found for name in group if name} | {name for line in imported for name in re.findall(r"[A-Za-z_]\w*", line)}


def _missing(text: str, files: Mapping[str, bytes]) -> set[str]:
    """What a failure did not find in the project: `module 'box' has no attribute 'area'` -> `{"area"}` if there is a `box.py`.

    Not what `None` or another library does not have.
    """
    found = {"".join(names) for names in re.findall(r"unexpected keyword argument '(\w+)'|name '(\w+)' is not defined", text)}
    for module, name in re.findall(r"module '([\w.]+)' has no attribute '(\w+)'", text):
        found |= {name} if _has(module, files) else set()
    for name, module in re.findall(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'", text):
        found |= {name} if _has(module, files) else set()
    for owner, name in re.findall(r"(?:'|type object ')(\w+)' (?:object )?has no attribute '(\w+)'", text):
        found |= {name} if any(re.search(rb"^\s*class %s\b" % owner.encode(), c, re.MULTILINE) for c in files.values()) else set()
    return found


def _has(module: str, files: Mapping[str, bytes]) -> bool:
    path = module.replace(".", "/")
    return any(f"/{name}".endswith((f"/{path}.py", f"/{path}/__init__.py")) for name in files)
