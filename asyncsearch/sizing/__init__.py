"""How many trials train together, or workers for one trial: pure rules that engine, simulator and option checks ask."""
