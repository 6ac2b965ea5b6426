"""The paper's experiments as a command-line program: ``python -m benchmarks --help``."""
