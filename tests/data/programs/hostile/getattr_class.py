getattr((), '__cl' + 'ass__').__base__
# ends: AttributeError
