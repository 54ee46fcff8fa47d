class A:
    def __repr__(self):
        while True:
            pass

final_result = A()
# gives: '<A>'
