"""Facts as texts state them: names, numbers and dates, how they are copied, and how a question is made of them."""
