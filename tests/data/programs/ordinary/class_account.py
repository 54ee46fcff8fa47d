class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount
        return self

account = Account(100)
account.deposit(50).deposit(25)
final_result = account.balance
# 175
