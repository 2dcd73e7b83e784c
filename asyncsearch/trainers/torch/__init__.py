"""The trainer for PyTorch, its packs and its gangs.

A file of one name in ``trainers.keras`` does the same for Keras. Without a twin there are:

    loaders, state_copy                processes that load ahead, and a copy of a state that is written later
    packs.trainer_refusals             why one pack cannot be; Keras asks ``trainers.packs.pack_training`` alone
    packs.loss_reads, watched_trainer  the values that a loss reads; Keras traces them (``traced_values``)
    gangs.fsdp2, zero1, strategies     strategies that divide a state
    gangs.shards, batch_norms          files of a divided state, and BatchNorm over a gang

How K models become one computation is in ``asyncsearch.packing``, which is for torch alone.
"""
