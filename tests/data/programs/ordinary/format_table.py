rows = [("apple", 1.2), ("pear", 0.85)]
final_result = "\n".join(f"{name:<8}{price:>6.2f}" for name, price in rows)
# 'apple     1.20\npear      0.85'
