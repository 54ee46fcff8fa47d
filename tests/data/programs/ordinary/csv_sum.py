import csv
import io

data = "item,price\napple,1.20\npear,0.80\n"
rows = list(csv.DictReader(io.StringIO(data)))
final_result = sum(float(row["price"]) for row in rows)
# 2.0
