"""Compiled graphs, which are called as PyTorch calls its modules: with hooks before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rehearsal.offline.nxdi.tensor import Tensor

Hook = Callable[..., Any]


class Handle:
    """Takes a hook away again."""

    def __init__(self, hooks: list[Hook], hook: Hook) -> None:
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        """Does so."""
        self._hooks.remove(self._hook)


class Graph:
    """One graph of an artifact: fixed shapes, and a time that a call takes.

    Called with tokens, attention mask and positions, in this order and by position
    (``models/model_base.py``, ``_get_model_outputs``).
    """

    def __init__(self, name: str, width: int | None, run: Callable[[], None]) -> None:
        self.name = name
        self._width, self._run = width, run
        self._before: list[Hook] = []
        self._after: list[Hook] = []

    def register_forward_pre_hook(self, hook: Hook) -> Handle:
        """Called before each call with the graph and its arguments."""
        self._before.append(hook)
        return Handle(self._before, hook)

    def register_forward_hook(self, hook: Hook) -> Handle:
        """Called after each call with the graph, its arguments and its output."""
        self._after.append(hook)
        return Handle(self._after, hook)

    def __call__(self, tokens: Tensor, mask: Tensor, positions: Tensor) -> None:
        """Raises AttributeError where no graph has that shape, which is what NxDI does then."""
        arguments = (tokens, mask, positions)
        if self._width is not None and positions.shape[1] != self._width:
            raise AttributeError("no attribute 'token_generation_model'")
        for hook in [*self._before]:
            hook(self, arguments)
        self._run()
        for hook in [*self._after]:
            hook(self, arguments, None)
