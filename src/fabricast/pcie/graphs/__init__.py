"""Congestion graphs: sets of copies, their files, patterns, programs and symmetries."""
