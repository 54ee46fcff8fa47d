"""What an agent remembers from one question to the next: the conversation, and the entities in it."""
