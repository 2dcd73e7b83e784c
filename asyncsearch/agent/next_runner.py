"""The process that follows a worker's present one: it is to begin its first training without having to import anything.

It is forked from a template with the modules of the first one. Where some of them cannot be imported beforehand, as one
that starts threads, or where there are no templates, as on macOS, it is started before the present one retires.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.runner_process import READ, DescriptorSelector, RunnerProcess
from asyncsearch.agent.runner_template import ForkedRunner, Template, fork_preloaded
from asyncsearch.runner.process.kernel_files import rooms
from asyncsearch.runner.process.preloading import Preload, text_variables
from asyncsearch.runner.protocol import ImportedModules, RunnerReady


class NextRunner:
    """The following process of a worker, begun or not."""

    def __init__(
        self, config: WorkerConfig, watch: DescriptorSelector, *, exited: Callable[[RunnerProcess], None]
    ) -> None:
        """Prepare; the arguments are those of ``RunnerSupervisor``."""
        self._config, self._watch, self._exited = config, watch, exited
        self._preloaded = PreloadedTemplate(watch)
        self._begun: RunnerProcess | None = None

    def preload(self, runner: RunnerProcess, imported: ImportedModules) -> None:
        """Import in a template, beside the trainings, what a process has imported."""
        self._preloaded.prepare(Preload(text_variables(runner.environment), imported.modules, imported.environment))

    def begin(self, runner: RunnerProcess) -> bool:
        """Start it beside the present one's training, if it gains by that; return whether it was started.

        Nothing is started where memory is scarce: for a moment both have what one has.
        """
        if self._begun is None and self._config.preloads and (not runner.is_named or self._preloaded.leaves_imports):
            runner.look_at_memory()
            if all(2 * runner.memory_bytes < room for room, _ in rooms()):
                self._begun = RunnerProcess(self._config, self._exited, self._preloaded.start)
                self._watch.set(self._begun.channel.socket, READ, self._on_channel)
        return self._begun is not None

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded the trainable, and waits for its first training."""
        return self._begun is not None and self._begun.is_ready

    def take(self) -> RunnerProcess:
        """Return the process for the following trainings: the one that was begun, or a new one."""
        if self._begun is None:
            return RunnerProcess(self._config, self._exited, self._preloaded.start)
        begun, self._begun = self._begun, None
        self._watch.forget(begun.channel.socket)
        return begun

    def on_exit(self, runner: RunnerProcess) -> None:
        """Forget one that has died before it was taken: the next one is started when it is needed."""
        if runner is self._begun:
            self._end()

    def close(self) -> None:
        """End what was begun."""
        self._end()
        self._preloaded.close()

    def _end(self) -> None:
        if self._begun is not None:
            self._watch.forget(self._begun.channel.socket)
            self._begun.close()
            self._begun = None

    def _on_channel(self, _mask: int) -> None:
        assert self._begun is not None
        messages = self._begun.channel.receive_now()
        self._begun.is_ready |= any(isinstance(message, RunnerReady) for message in messages)
        if self._begun.is_ready or self._begun.channel.is_closed:
            self._watch.forget(self._begun.channel.socket)


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
            if self._template is None:
                self._is_over = True
            else:
                self._watch.set(self._template, READ, self._on_answer)

    @property
    def is_awaited(self) -> bool:
        """Whether it still imports modules."""
        return self._template is not None and not self._is_ready

    @property
    def leaves_imports(self) -> bool:
        """Whether the next process has modules to import that none could import beforehand."""
        return self._is_over or bool(self.left_out)

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
