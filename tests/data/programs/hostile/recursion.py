def f(): return f()
f()
# ends: RecursionError
