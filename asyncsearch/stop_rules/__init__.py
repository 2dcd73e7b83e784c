"""Rules that say when a study, or a trial, has trained enough: pure functions of what has been reported and of time."""

from __future__ import annotations

from asyncsearch.stop_rules.base_rule import StopRule as StopRule
from asyncsearch.stop_rules.progress import RunningBest as RunningBest
from asyncsearch.stop_rules.progress import StopProgress as StopProgress
from asyncsearch.stop_rules.rules import Elapsed as Elapsed
from asyncsearch.stop_rules.rules import Plateau as Plateau
from asyncsearch.stop_rules.rules import Reached as Reached
from asyncsearch.stop_rules.rules import Trained as Trained
from asyncsearch.stop_rules.rules import study_rule as study_rule
from asyncsearch.stop_rules.rules import trial_rule as trial_rule
