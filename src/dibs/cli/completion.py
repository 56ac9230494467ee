"""``dibs completion``: for shells, made from the parser."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")],
    /,
) -> int:
    """Print what a shell needs to complete dibs commands.

    bash: `source <(dibs completion bash)` in ~/.bashrc. zsh: its output in a file `_dibs` in a folder of $fpath. fish:
    its output in ~/.config/fish/completions/dibs.fish.
    """
    from dibs.cli.commands import commands

    print(commands.generate_completion(shell=shell))
    return 0
