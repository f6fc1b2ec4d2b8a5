"""Packet-level simulator of PCIe trees."""
