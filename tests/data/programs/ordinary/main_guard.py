def main():
    return sum(i * i for i in range(1, 11))

if __name__ == "__main__":
    final_result = main()
# 385
