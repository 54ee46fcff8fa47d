"""What messages contain: texts and files, tools' calls, and what a model is given of them."""
