"""The trainer for PyTorch, its packs and its gangs.

A file of one name in ``trainers.keras`` does the same for Keras. Without a twin there are: in ``packs`` the reads of a
loss (Keras traces them: ``traced_values``), in ``gangs`` the strategies that divide a state, and BatchNorm over a gang.
How K models become one computation is in ``asyncsearch.packing``, which is for torch alone.
"""
