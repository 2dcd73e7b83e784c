"""The words of people who know other libraries, and the line that does it here; no other module knows their names.

    names.py        arguments and attributes, by the function, class or object that is given them: the table
    algorithms.py   schedulers and searchers        domains.py     domains of a space
    trainables.py   models, and all that a function does with its trial        commands.py    the command line

Rule: pure, and none of these libraries is imported: their objects are known by the names of their classes.
"""
