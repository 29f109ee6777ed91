"""Semirings: what "sum" and "product" mean while the engine contracts."""
