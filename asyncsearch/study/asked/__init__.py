"""The arguments of a study: what may be asked, and the answer to what may not."""
