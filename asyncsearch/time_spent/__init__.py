"""The workers' time: the purpose of each of their milliseconds, by worker and by trial.

    account.py   the kinds of time, and the accounts that hold them
    lanes.py     the time of one work: what its messages tell, divided among its lanes and their trials
    reading.py   follows a journal: launches, work and waits of every worker

All of it is pure. What a process does is measured by ``runner/stopwatch.py``, travels as ``events.Spent`` with reports
and ends, and is shown by ``report/time_words.py`` and ``report/plots/workers.py``.
"""
