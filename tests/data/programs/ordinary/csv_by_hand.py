data = "item,price\napple,1.20\npear,0.80\n"
rows = [line.split(",") for line in data.strip().split("\n")[1:]]
final_result = sum(float(price) for _, price in rows)
# 2.0
