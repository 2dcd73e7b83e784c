"""The worker's second template, which has imported what its first runner had, so that the next ones begin at once."""

from __future__ import annotations

import msgspec

from asyncsearch.agent.runner_process import READ, DescriptorSelector
from asyncsearch.agent.runner_template import ForkedRunner, Template, fork_preloaded
from asyncsearch.runner.process.preloading import Preload

_MOST_LEFT_OUT = 8
"""After how many modules that cannot be imported beforehand none is: each costs the imports before it again."""


class PreloadedTemplate:
    """A second template, with what a worker's first runner has imported: its runners begin to train at once."""

    def __init__(self, watch: DescriptorSelector) -> None:
        """Prepare; ``watch`` waits for its answer, in the thread that calls all methods."""
        self._watch = watch
        self._template: Template | None = None
        self._is_ready = self._is_over = False
        self.left_out: dict[str, str] = {}
        """Module that is not imported beforehand -> why."""

    def prepare(self, wanted: Preload) -> None:
        """Import modules in it, beside the trainings."""
        self._wanted = wanted
        if self._template is None and not self._is_over:
            self._template = fork_preloaded(wanted)
            if self._template is not None:
                self._watch.set(self._template, READ, self._on_answer)

    @property
    def is_awaited(self) -> bool:
        """Whether it still imports modules."""
        return self._template is not None and not self._is_ready

    def start(self) -> ForkedRunner | None:
        """Fork a runner. None if it is not ready for that."""
        if self._template is None or not self._is_ready:
            return None
        runner = self._template.start()
        if runner is None:
            self.close()
        return runner

    def close(self) -> None:
        """End the process, and its runners; there is no further one."""
        self._is_over = True
        self._end()

    def _end(self) -> None:
        if self._template is not None:
            self._watch.forget(self._template)
            if not self._is_ready:
                self._template.kill()  # it has no runners, and would first end its imports
            self._template.close()
            self._template, self._is_ready = None, False

    def _on_answer(self, _mask: int) -> None:
        assert self._template is not None
        self._watch.forget(self._template)
        answer = self._template.read()
        if answer is not None and not answer.spoiled_by:
            self._is_ready = True
            return
        if answer is None or len(self.left_out) == _MOST_LEFT_OUT:
            self.close()
        else:
            self._end()
            self.left_out[answer.spoiled_by] = answer.reason
            self.prepare(msgspec.structs.replace(self._wanted, left_out=tuple(self.left_out)))
