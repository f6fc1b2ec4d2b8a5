"""Figures: each function draws one picture from tables, `style` saves it."""
