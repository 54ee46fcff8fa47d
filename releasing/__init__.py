"""What `make release` does: archives, a chart, a bill of materials and checksums, all of one version."""
