"""The trainer for Keras, its packs and its gangs.

A file of one name in ``trainers.torch`` does the same for PyTorch. Without a twin there are: what Keras traces
(``traced_values``, ``kept_traces``, ``packs.traced_steps``), and K models as one computation (``packs.stacks``,
``packs.update_rules``), for which torch has ``asyncsearch.packing.stack``.
"""
