"""Looks at what a search would run on before it runs: this machine, the executors of Spark, and a store.

diagnosis           the verdicts: facts in, findings and their remedies out
facts               what this machine and this Python have; what a store permits, and how long it takes
examination         asks all of them, and Spark where a session is active
"""

from __future__ import annotations

from asyncsearch.doctor.diagnosis import Diagnosis, Severity
from asyncsearch.doctor.examination import Examination, examine

__all__ = ["Diagnosis", "Examination", "Severity", "examine"]
