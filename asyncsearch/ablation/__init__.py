"""What an ablation study leaves out of a trial, and how its data and its network are made without that.

left_out       the words of the parameter ``ablated``, and what user code asks of a trial; its own functions
columns        data without columns                torch_layers, keras_layers   networks without layers
patterns       the columns and layers that a name stands for
"""
