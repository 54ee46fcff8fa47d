f = lambda g: g(g)
f(f)
# ends: RecursionError
