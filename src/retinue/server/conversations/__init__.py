"""`/conversations`: items in the Responses API's shapes, and their storage."""
