"""Pictures of the studio for its page in the docs, and how quick it is."""
