"""The common protocol of all routes: request bodies, objects, errors and streams, in OpenAI's format."""
