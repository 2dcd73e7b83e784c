"""``trial.epochs(state={...})``: how the state of each kind of object is saved and restored in place.

Rule: a module for a framework is imported only where that framework is imported already, so that a runner imports none.
"""
