"""What every route speaks: bodies in, objects, errors and streams out, in OpenAI's shapes."""
