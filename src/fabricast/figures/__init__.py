"""Matplotlib figures drawn from result tables; `style` exports them."""
