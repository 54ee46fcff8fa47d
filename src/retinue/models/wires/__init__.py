"""The wire formats, one file each: how a request is written, how a reply is read, and what of it is sent back."""
