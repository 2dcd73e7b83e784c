"""Files and folders that somebody else may have made: opened, walked, copied and removed without surprises."""
