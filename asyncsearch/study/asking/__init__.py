"""Ask and tell: trials that are evaluated elsewhere, in a laboratory or by another queue, in a study like any other."""
