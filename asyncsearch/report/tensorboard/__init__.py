"""A study as TensorBoard shows it: event files with the reports and the hyper-parameters of each trial."""
