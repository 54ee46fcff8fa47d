"""What `make image` does: the Dockerfile is carried out without a container engine, and what it makes is started."""
