"""Tools that the server has for every agent, or that a tenant registers."""
