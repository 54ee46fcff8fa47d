"""What `make chart` does: the Helm chart is linted, rendered, validated, and its values are misspelt."""
