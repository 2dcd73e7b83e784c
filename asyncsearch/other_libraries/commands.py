"""Answers to commands that there are not: the command to write."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_COMMANDS = {
    **dict.fromkeys(("list", "ls", "status", "info", "summary", "results", "dashboard", "ui", "watch"), "show {store}"),
    **dict.fromkeys(("best", "best_trial", "best-trial", "top"), "trials {store} --sort value --limit 1"),
    **dict.fromkeys(("continue", "restart", "optimize"), "resume {store}"),
    **dict.fromkeys(("log", "tail"), "logs {store} trial-7"),
    **dict.fromkeys(("why", "trial"), "explain {store} trial-7"),
    **dict.fromkeys(("estimate", "dry-run", "dryrun"), "preview search.py --num-trials 64"),
    **dict.fromkeys(("gc", "prune", "delete", "remove", "rm"), "clean {store} --dry-run"),
    **dict.fromkeys(("plot", "draw"), "tree {store} --output tree.svg"),
}
"""Commands of other programs -> ours."""
_OPTIONS = {
    **dict.fromkeys(("-n", "--n", "--top", "--head", "--num"), "--num-trials"),
    **dict.fromkeys(("--n-trials", "--n_trials", "--num_trials", "--trials"), "--num-trials"),
    **dict.fromkeys(("-j", "--jobs", "--n-jobs", "--n_jobs", "--num-workers", "--workers"), "--parallelism"),
    **dict.fromkeys(("--order", "--sort-by", "--sort_by"), "--sort"),
    **dict.fromkeys(("--time", "--max-time"), "--timeout"),
}
"""Options of other programs -> ours."""
_OF_COMMANDS = {("trials", "--num-trials"): "--limit", ("simulate", "--parallelism"): "--workers"}
"""(command, option that another command has for the same) -> the option of this one."""
_TRIAL = re.compile(r"(trial-)?\d+")
_SORT_KEYS = ("id", "resource", "state", "value")


def answer_on_command(arguments: Sequence[str]) -> str:
    """Return the command to write instead of one that was refused. Empty if none is known."""
    words = list(arguments)
    if not words or any(word in ("-h", "--help") for word in words):
        return ""
    scripts = [word for word in words if word.endswith(".py")]
    if words[0].endswith(".py") or words[0] in ("run", "start", "search", "tune", "submit"):
        return f"python {shlex.quote(scripts[0]) if scripts else 'search.py'}"
    if words[0] in _COMMANDS:
        store = shlex.quote(words[1]) if len(words) > 1 else "studies/digits"
        return f"asyncsearch {_COMMANDS[words[0]].format(store=store)}"
    written = _corrected(words)
    return f"asyncsearch {shlex.join(written)}" if written != words else ""


def _corrected(words: list[str]) -> list[str]:
    command, rest = words[0], [_option(words[0], word) for word in words[1:]]
    if command == "trials":
        rest = _trials_options(rest)
    stores = [word for word in rest[:1] if not word.startswith("-")]
    if command in ("show", "tree") and len(rest) == 2 and _TRIAL.fullmatch(rest[1]):
        return ["explain", *rest]
    if command in ("logs", "explain") and len(rest) == 1 and stores:
        return [command, *rest, "trial-7"]
    if command in ("show", "trials", "tree", "simulate", "clean", "resume") and not rest:
        return [command, "studies/digits"]
    if command == "resume" and len(rest) == 2 and rest[1].isdecimal():
        return [command, rest[0], "--num-trials", rest[1]]
    if command == "simulate" and "--workers" in rest:
        at = rest.index("--workers") + 1
        numbers = [word.strip(",") for word in rest[at:]]
        if len(numbers) > 1 and all(word.isdecimal() for word in numbers):
            rest = [*rest[:at], ",".join(numbers)]
    return [command, *rest]


def _option(command: str, word: str) -> str:
    name, equals, value = word.partition("=")
    ours = _OPTIONS.get(name, name)
    return _OF_COMMANDS.get((command, ours), ours) + equals + value


def _trials_options(rest: list[str]) -> list[str]:
    if "--best" in rest:
        at = rest.index("--best")
        rest = [*rest[:at], "--sort", "value", "--limit", "1", *rest[at + 1 :]]
    if "--sort" in rest[:-1]:
        at = rest.index("--sort") + 1
        key = rest[at] if rest[at] in _SORT_KEYS else "value"
        rest = [*rest[:at], key, *rest[at + 1 :]]
    return rest
