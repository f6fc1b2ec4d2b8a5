"""Packet simulator of PCIe trees: hardware, programs, arbitration phases, traces and probes."""
