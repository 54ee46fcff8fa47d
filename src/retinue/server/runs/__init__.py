"""`/v1/runs`: the runs of a tenant, whatever API they came from. An extension."""
