"""Files become searchable in the background, tenants in turn."""
