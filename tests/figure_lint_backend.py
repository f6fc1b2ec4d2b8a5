"""Matplotlib backend that reports unreadable texts of each saved figure (MPLBACKEND=module://figure_lint_backend)."""

import sys

from figure_lint import text_problems
from matplotlib.backends.backend_agg import FigureCanvasAgg


class FigureCanvas(FigureCanvasAgg):
    """Canvas that checks its figure once, before the first file is written."""

    def print_figure(self, filename, *arguments, **options):
        if not getattr(self.figure, "is_checked", False):
            self.figure.is_checked = True
            for problem in text_problems(self.figure):
                sys.stdout.write(f"figure {filename}: {problem}\n")
        return super().print_figure(filename, *arguments, **options)
