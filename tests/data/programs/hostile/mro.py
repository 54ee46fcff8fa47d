''.__class__.__mro__
# ends: AttributeError
