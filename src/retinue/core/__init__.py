"""The core: values, events and protocols; the loop that turns a strategy's requests into events; the tool contract."""
