type(type(1)).__subclasses__(type)
# ends: AttributeError
