"""The findings of an ablation study: the effect of each component, as a table and as a picture."""
