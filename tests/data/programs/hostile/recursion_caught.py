def f():
    try:
        f()
    except RecursionError:
        f()

f()
final_result = 1
# ends: TimeoutError
