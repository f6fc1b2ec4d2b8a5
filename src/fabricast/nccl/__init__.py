"""NCCL: its view of a machine, its choices, and its files and logs."""
