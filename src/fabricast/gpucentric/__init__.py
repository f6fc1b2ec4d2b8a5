"""GPU-centric study: time and energy of GPU communication methods (Froening, GTC 2016)."""
