"""Storages added up: by category, module, cell, name, dtype or device."""
