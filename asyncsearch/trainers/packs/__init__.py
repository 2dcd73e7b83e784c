"""Packs of trainers, whatever their framework: who is refused, who is sequential, who sees the same samples."""
