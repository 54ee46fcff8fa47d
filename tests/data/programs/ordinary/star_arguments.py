def total(*args, scale=1, **kwargs):
    return (sum(args) + sum(kwargs.values())) * scale

final_result = total(1, 2, 3, scale=10, extra=4)
# 100
