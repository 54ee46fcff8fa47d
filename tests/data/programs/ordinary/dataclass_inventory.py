from dataclasses import dataclass

@dataclass
class Item:
    name: str
    price: float
    quantity: int = 1

    def total(self) -> float:
        return self.price * self.quantity

items = [Item("pen", 1.5, 4), Item("book", 12.0)]
final_result = sum(item.total() for item in items)
# 18.0
