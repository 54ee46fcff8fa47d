x = 'a' * 1_000_000
[x] * 10_000
# ends: longer than 200,000 characters
