"""Programs of Ray Tune on workers: ``import asyncsearch.ray; asyncsearch.ray.install()`` put first is the whole change.

From then on ``import ray`` and the modules of Tune give what this project has for them, on the driver and on its
workers, until ``uninstall``. ``workers`` says where the trials run. See docs/migrate_ray.md.
"""

from __future__ import annotations

from asyncsearch.ray.installing import install, uninstall
from asyncsearch.ray.workers import workers

__all__ = ["install", "uninstall", "workers"]
