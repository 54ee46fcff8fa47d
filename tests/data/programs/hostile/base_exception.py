raise BaseException("x" * 10**6)
# ends: BaseException
