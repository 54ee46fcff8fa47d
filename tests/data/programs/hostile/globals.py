(lambda: 0).__globals__
# ends: AttributeError
