"""The documentation site: `make site` makes its pages here, with what the code says of itself, and builds them."""
