"""The README.md of an exported data set: what is in it, what was left out, and how to load it."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version

from agents.dataset_schema import COLUMNS, KINDS, Kind, features
from agents.datasets import Counted, Wanted

_ABOUT: dict[Kind, str] = {
    "sft": "conversations for supervised fine-tuning, in OpenAI's chat format with tool calls",
    "preference": "a prompt with a better and a worse kernel, told apart beyond noise",
    "rl": "one step of an episode a line: observation, action, reward, done",
    "trajectory": "one model call a line, with its whole prompt, its tools' results and what it was worth",
}
_TAGS: dict[Kind, str] = {"sft": "sft", "preference": "dpo", "rl": "reinforcement-learning", "trajectory": "agents"}


def card(counted: Counted, wanted: Wanted) -> str:
    """Markdown with a YAML header that gives `datasets` each file and its columns."""
    kinds = [kind for kind in KINDS if kind in wanted.kinds]
    return "\n".join([_header(kinds, counted), _about(kinds, counted), _filters(wanted), _figures(counted), _end()])


def _header(kinds: list[Kind], counted: Counted) -> str:
    configs, infos = [], []
    for kind in kinds:
        configs.append(f"- config_name: {kind}\n  data_files:\n  - split: train\n    path: {kind}.jsonl")
        infos.append(
            f"- config_name: {kind}\n  features:\n{features(COLUMNS[kind], '  ')}\n"
            f"  splits:\n  - name: train\n    num_bytes: {counted.size[kind]}\n    num_examples: {counted.lines[kind]}"
        )
    tags = "\n".join(f"- {tag}" for tag in ["code", "kernels", *(_TAGS[kind] for kind in kinds)])
    return "\n".join(
        [
            "---",
            "pretty_name: Kernel optimisation trajectories",
            "language:\n- en",
            f"tags:\n{tags}",
            "configs:",
            *configs,
            "dataset_info:",
            *infos,
            "---",
        ]
    )


def _about(kinds: list[Kind], counted: Counted) -> str:
    rows = [f"| `{kind}` | {counted.lines[kind]} | {_ABOUT[kind]} |" for kind in kinds]
    return "\n".join(
        [
            "\n# Kernel optimisation trajectories\n",
            f"Exported by warpsmith {version('warpsmith')} from {len(counted.runs)} runs. Every kernel was built, "
            "checked and timed by its judge; no figure comes from a model.\n",
            "| config | lines | holds |",
            "| --- | --- | --- |",
            *rows,
            "\n```python\nimport datasets",
            *(f'datasets.load_dataset("this/folder", "{kind}", split="train")' for kind in kinds),
            "```\n",
        ]
    )


def _filters(wanted: Wanted) -> str:
    said = [
        "only turns with an accepted kernel" if wanted.accepted_only else "",
        f"speedup over the baseline of at least {wanted.min_speedup:g}" if wanted.min_speedup is not None else "",
        f"roles: {', '.join(wanted.roles)}" if wanted.roles else "",
        f"models: {', '.join(wanted.models)}" if wanted.models else "",
        f"not by: {', '.join(wanted.not_models)}" if wanted.not_models else "",
        "the same content may come again" if wanted.keep_duplicates else "the same content only once",
    ]
    reward = "`reward` of `rl` is `reward_steps`" if wanted.scale == "steps" else "`reward` of `rl` is continuous"
    return "\n".join(["## Filters\n", *(f"- {text}" for text in said if text), f"- {reward}", ""])


def _figures(counted: Counted) -> str:
    parts = [
        ("Left out", counted.left_out),
        ("Lines by reward step", counted.steps),
        ("Tasks", counted.tasks),
        ("Chips", counted.chips),
        ("Models", counted.models),
        ("Roles", counted.roles),
        ("What could not be read", counted.damaged),
    ]
    return "\n".join(_table(title, counter) for title, counter in parts if +counter)


def _table(title: str, counter: Counter[str]) -> str:
    rows = [f"| {_cell(name)} | {count} |" for name, count in counter.most_common() if count]
    return "\n".join([f"## {title}\n", "| | lines |", "| --- | --- |", *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) or "unknown"


def _end() -> str:
    return "\n".join(
        [
            "## Notes\n",
            "- No licence is stated: it depends on the tasks, on the starting kernels and on the terms of the models "
            "that wrote the replies. Add one.",
            "- Keys, home folders, run folders and this machine's names were taken out. Read a sample: the tasks' own "
            "words were not.",
            "- Reward steps: -1 wrong, 1 right, 2 over 5 % faster than the baseline, 3 than the starting kernel too.",
            "- `tools` are the manuals of the warpsmith that exported, which may be newer than the run.",
            "",
        ]
    )
