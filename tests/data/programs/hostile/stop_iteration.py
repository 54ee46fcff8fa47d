raise StopIteration
# ends: StopIteration
