"""Side-by-side speed measurements: ratios against peers on the same work in the same run."""
