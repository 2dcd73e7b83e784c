"""What an ablation study has found: the effect of each component, as a table and as a picture."""
