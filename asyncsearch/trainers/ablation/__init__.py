"""How data and networks are made without the components that an ablation study leaves out."""
