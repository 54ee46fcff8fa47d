data = [4, 8, 15, 16, 23, 42]
mean = sum(data) / len(data)
variance = sum((x - mean) ** 2 for x in data) / len(data)
final_result = {"mean": mean, "std": round(variance ** 0.5, 4)}
# {'mean': 18.0, 'std': 12.3153}
