"""Tables of the messages of libraries: the lines that state them, what they mean, and what ends them."""
