"""The GPU-centric study: methods of communication in time and energy (Froening, GTC 2016)."""
