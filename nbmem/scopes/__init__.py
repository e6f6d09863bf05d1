"""A measured scope: what one stretch of code did to each device."""

from nbmem.scopes.core import Scope, ScopeResult, Scopes

__all__ = ["Scope", "ScopeResult", "Scopes"]
