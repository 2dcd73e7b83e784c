"""The trainer for Keras, its packs and its gangs.

A file of one name in ``trainers.torch`` does the same for PyTorch. Without a twin there are:

    clipping, trainer_state            work that torch itself does: limits of gradients, states of an optimizer
    traced_values, kept_traces         steps as Keras traces them
    packs.traced_steps                 the same in packs
    packs.stacks, update_rules         K models as one computation; for torch it is in ``asyncsearch.packing.stack``
"""
