"""The paper's tools (section 3.3): the shell, a windowed editor, and submit.

agent = ReactAgent(toolset())                                  # for a large model
agent = ReactAgent(toolset(View(lines=40, brief=True)), prompts="brief")
"""

from __future__ import annotations

from patchgrad.agents.tools.bash import Bash
from patchgrad.agents.tools.edits import Create, Edit, Replace
from patchgrad.agents.tools.functions import FunctionTool
from patchgrad.agents.tools.shell import Shell
from patchgrad.agents.tools.special import Goto, Open, ScrollDown, ScrollUp, SearchFile, Submit
from patchgrad.agents.tools.window import View
from patchgrad.contracts import Tool

__all__ = [
    "Bash",
    "Create",
    "Edit",
    "FunctionTool",
    "Goto",
    "Open",
    "Replace",
    "ScrollDown",
    "ScrollUp",
    "SearchFile",
    "Shell",
    "Submit",
    "View",
    "toolset",
]


def toolset(view: View | None = None) -> dict[str, Tool]:
    """All tools by name, in the order in which a prompt lists them; they share one view."""
    view = view or View()
    tools: tuple[Tool, ...] = (
        Shell(view),
        Create(view),
        Open(view),
        Goto(view),
        ScrollDown(view),
        ScrollUp(view),
        SearchFile(view),
        Edit(view),
        Replace(view),
        Submit(view),
    )
    return {tool.name: tool for tool in tools}
