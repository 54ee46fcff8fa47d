rates = {"EUR": 1.0, "USD": 1.0465, "GBP": 0.8335}

def convert(amount, source, target):
    return amount / rates[source] * rates[target]

final_result = round(convert(250, "USD", "GBP"), 2)
# 199.12
