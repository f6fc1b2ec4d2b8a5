"""Topologies from the text that people paste: nvidia-smi, rocm-smi, lspci and NCCL logs."""
